"""What an agent's clients got of a base, asked for at `/v1` by a former reader: nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.core.access import GrantLevel
from lamella.core.json import encode_text
from lamella.core.messages import ToolCall
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import served
from lamella.settings import read_settings
from lamella.tools.knowledge_base_search import NAME
from leaking.restricted_base import grant, restricted_base, second_model

from .agent_clients import AgentClient
from .test_revoked import CANARIES, SAYS, SECRET, told

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
async def test_a_stored_answer_of_an_agent_is_withheld(tmp_path: Path, api: str) -> None:
    model = ScriptedModel()
    given = read_settings(data=tmp_path, restricted_model="second", debounce_ms=0, titles=False)
    async with served(given, models=ScriptedModels(model, second_model())) as (app, client):
        base = await restricted_base(app, SECRET, title="Heronsgate.md")
        await grant(app, base, GrantLevel.FULL)
        agent = await client.post("/agents", {"name": "Pilot", "prompt": "You know leases."})
        bases = {"knowledge_base_ids": [base]}
        assert (await client.call("PUT", f"/agents/{agent['id']}/knowledge-bases", json=bases)).status_code == 200
        search = calling(ToolCall("c1", NAME, encode_text({"query": "What does the tenant owe?"})))
        model.then(search, saying(f"It is {SAYS} [1]."))
        talk = AgentClient(client.http, api)
        await talk.ask("What is owed?")
        [line] = (await client.get("/lines"))["data"]
        turn = (await client.get(f"/conversations/{line['id']}/turns"))["data"][0]["id"]
        response = f"/v1/responses/resp_{turn.removeprefix('turn_')}"
        items = f"/v1/conversations/{line['id']}/items"
        export = f"/api/v1/conversations/{line['id']}/export"
        paths = [response, f"{response}?stream=true", f"{response}?stream=true&starting_after=3", items, export]

        async def found() -> dict[str, str]:
            return {path: (await client.http.get(path)).text for path in paths}

        assert told(await found()).keys() == set(paths), "it may be read before"
        for level in (GrantLevel.RESTRICTED, None):
            await grant(app, base, level)
            assert told(await found()) == {}
        model.then(saying("That is closed."))
        await talk.ask("Say it again.")
        sent = encode_text(model.body(model.requests[-1]))
        assert [canary for canary in CANARIES if canary in sent] == []
