"""What the log of requests holds of a base that somebody may use and not read, in the requests of its full readers."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lamella.app.app import LOCAL_OWNER
from lamella.core.access import BaseContent, GrantLevel, Role, Subject, User
from lamella.core.json import Json
from lamella.storage.store import Store
from lamella.tools.knowledge_base_search import NAME
from leaking.restricted_base import ANN, add

from .stage import Playback, staged

pytestmark = pytest.mark.anyio

CANARY = "CANARY-4711"


async def _logged(stage: Playback, *, protected: bool) -> str:
    """The lines of two turns of the owner of a base: a passage is found, quoted, and still there in the second turn."""
    app, now = stage.app, stage.app.clock.now()
    base = (await app.access.add_base(LOCAL_OWNER, "kb_1", BaseContent("Mine"), now)).id
    await add(app, base, f"The tenant pays {CANARY} for the mill.", "a.md", owner=LOCAL_OWNER)
    if protected:
        assert isinstance(app.store, Store)
        await app.store.directory.add_user(User(ANN.user_id, "Ann", Role.MEMBER, now))
        await app.access.set_grant(LOCAL_OWNER, base, Subject("user", ANN.user_id), GrantLevel.RESTRICTED, now)
    call: Json = {"tool_calls": [{"name": NAME, "arguments": {"query": "What does the tenant pay?"}}]}
    with capture_logs() as lines:
        conversation = await stage.client.conversation()
        quoted: Json = {"text": f"It is {CANARY}."}
        found = await stage.turn(conversation, "How much is it?", call, quoted, knowledge_base_ids=[base])
        await stage.turn(conversation, "Are you sure?", {"text": "Yes."})
    assert CANARY in str(found)
    return "\n".join(str(line) for line in lines if str(line["event"]).startswith("LLM_"))


async def test_passages_of_a_base_with_restricted_readers_are_logged_by_their_length(
    provider: str, tmp_path: Path
) -> None:
    async with staged(provider, tmp_path, tools=None, log_llm_requests=True) as stage:
        logged = await _logged(stage, protected=True)
    assert CANARY not in logged
    assert "the mill" not in logged
    assert "How much is it?" in logged  # what the user wrote, and all that is of no such base, is logged as it is sent
    assert "Are you sure?" in logged
    assert logged.count("LLM_REQUEST") == logged.count("LLM_RESPONSE") >= 3
    assert "characters]" in logged


async def test_passages_of_other_bases_are_logged_as_they_are_sent(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path, tools=None, log_llm_requests=True) as stage:
        logged = await _logged(stage, protected=False)
    assert f"The tenant pays {CANARY} for the mill." in logged
    assert "characters]" not in logged
