"""The second model for restricted access over a provider's wire, with the simulator as main and second model."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lamella.app.app import LOCAL_OWNER, open_app
from lamella.core.access import BaseContent
from lamella.core.errors import ConfigurationError
from lamella.settings import read_settings
from lamella_simulator.testing import running
from leaking.restricted_base import add

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("apart", [False, True], ids=["one of the usual models", "at its own address"])
async def test_the_simulator_answers_as_second_model_and_nothing_of_it_is_logged(tmp_path: Path, apart: bool) -> None:
    with running() as url:
        own = {"restricted_base_url": url, "restricted_api_key": "other"} if apart else {}
        given = read_settings(
            data=tmp_path,
            anthropic_base_url=url,
            anthropic_api_key="key",
            restricted_model="claude-haiku-5-5",
            log_llm_requests=True,
            **own,
        )
        async with open_app(given) as app:
            base = (await app.access.add_base(LOCAL_OWNER, "kb_1", BaseContent("Mine"), app.clock.now())).id
            await add(app, base, "The tenant pays CANARY-4711.", "a.md", owner=LOCAL_OWNER)
            with capture_logs() as lines:
                asked = [
                    (await app.knowledge.restricted_preview(LOCAL_OWNER, base, question, 8))[0]
                    for question in ("What does the tenant pay?", "Zeppelins?")
                ]
    assert [(one.safe.reason.value, one.confidence) for one in asked] == [("answered", 0.8), ("not_in_documents", 0.8)]
    assert "deal with this question" in asked[0].safe.text
    assert asked[0].usage.input > 100
    assert "CANARY" not in str(lines)


async def test_half_a_configuration_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no model for restricted access") as raised:
        async with open_app(read_settings(data=tmp_path, restricted_api_key="key")):
            raise AssertionError("it opened")
    assert raised.value.hint == "Set LAMELLA_RESTRICTED_MODEL too."
