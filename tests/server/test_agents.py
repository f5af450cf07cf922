"""Agents over HTTP: kept, edited, chosen, and named in the window of every turn that has one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lamella.app.app import App
from lamella.context.layouts import LAYOUTS
from lamella.core.messages import ToolCall
from lamella.llm.scripted import FACTS, Gate, ScriptedModel, calling, saying
from lamella.server.testing import ServerClient

from .asking import error_of, patched, settings, window

pytestmark = pytest.mark.anyio

EDITOR = {"name": "Editor", "prompt": "You edit texts.", "reminder": "Be kind."}


async def test_an_agent_is_kept_edited_and_removed(client: ServerClient) -> None:
    made = await client.post("/agents", {**EDITOR, "tools": ["read_file"], "model": "scripted", "layout": "onyx"})
    assert made["id"].startswith("agent_")
    assert {name: made[name] for name in ("object", "reminder", "replaces_system", "tools", "model", "layout")} == {
        "object": "agent",
        "reminder": "Be kind.",
        "replaces_system": False,
        "tools": ["read_file"],
        "model": "scripted",
        "layout": "onyx",
    }
    path = f"/agents/{made['id']}"
    assert await client.get(path) == made
    changed = await patched(client, path, prompt="You cut texts.", tools=None, model=None)
    assert (changed["prompt"], changed["tools"], changed["model"], changed["revision"]) == (
        "You cut texts.",
        None,
        None,
        2,
    )
    assert (await patched(client, path, prompt="You cut texts."))["revision"] == 2
    assert (await patched(client, path))["updated_at"] == changed["updated_at"]
    assert (await client.get("/agents"))["data"] == [changed]
    assert (await client.call("DELETE", path)).status_code == 204
    error_of(await client.call("GET", path), 404, "not_found", "agent_id")
    assert (await client.get("/agents"))["data"] == []


@pytest.mark.parametrize(
    ("body", "param", "hint"),
    [
        ({"prompt": "P"}, "name", "openapi"),
        ({"name": "N", "replaces_system": True, "prompt": ""}, "prompt", "replaces_system"),
        ({"name": "", "prompt": "P"}, "name", "openapi"),
        ({"name": "  ", "prompt": "P"}, "name", "Write"),
        ({"name": "N", "prompt": " \n", "replaces_system": True}, "prompt", "Write"),
        ({"name": "N" * 201, "prompt": "P"}, "name", "openapi"),
        ({"name": "N", "prompt": "P", "tools": ["fly"]}, "tools", "read_file"),
        ({"name": "N", "prompt": "P", "tools": ["read_file", "read_file"]}, "tools", "once"),
        ({"name": "N", "prompt": "P", "tools": "read_file"}, "tools", "openapi"),
        ({"name": "N", "prompt": "P", "model": "nobody"}, "model", ""),
        ({"name": "N", "prompt": "P", "layout": "sideways"}, "layout", "lamella"),
        ({"name": "N", "prompt": "P", "id": "agent_1"}, "id", "openapi"),
        ({"name": "N", "prompt": "P", "revision": 9}, "revision", "openapi"),
        ({"name": "N", "prompt": "word " * FACTS.window}, "prompt", "Shorten"),
    ],
)
async def test_an_agent_that_cannot_be_is_refused(client: ServerClient, body: Any, param: str, hint: str) -> None:
    error = error_of(await client.call("POST", "/agents", json=body), 400, "invalid_request", param)
    assert hint in (error["hint"] or "")
    assert (await client.get("/agents"))["data"] == []
    made = await client.post("/agents", EDITOR)
    change = {name: value for name, value in body.items() if name not in ("name", "prompt") or name == param}
    if param in change:
        answer = await client.call("PATCH", f"/agents/{made['id']}", json=change)
        error_of(answer, 400, "invalid_request", param)
    assert await client.get(f"/agents/{made['id']}") == made


@pytest.mark.parametrize(
    ("fields", "letters"),
    [
        ({"tools": ["read_file"]}, "S U1"),
        ({"model": "scripted", "layout": "onyx"}, "S U1"),
        ({"prompt": "  \n"}, "S U1"),
        ({"reminder": "Be kind."}, "S U1 R"),
    ],
)
async def test_an_agent_needs_no_prompt(
    client: ServerClient, model: ScriptedModel, fields: dict[str, Any], letters: str
) -> None:
    model.then(saying("Hi."))
    agent = await client.post("/agents", {"name": "Quiet", **fields})
    assert agent["prompt"] == fields.get("prompt", "")
    mapped = await window(client, await client.send(await client.conversation(agent_id=agent["id"]), "Hello"))
    assert mapped["letters"] == letters
    assert "still apply" not in str([segment["text_preview"] for segment in mapped["segments"]])
    assert {"agent", "the prompt of “Quiet” is empty"} in [set(absence.values()) for absence in mapped["absent"]]


async def test_an_agent_that_replaces_the_system_prompt_keeps_a_prompt(client: ServerClient) -> None:
    bare = await client.post("/agents", {"name": "Bare"})
    replacing = await client.post("/agents", {**EDITOR, "replaces_system": True})
    for agent, change in ((bare, {"replaces_system": True}), (replacing, {"prompt": " "})):
        answer = await client.call("PATCH", f"/agents/{agent['id']}", json=change)
        error = error_of(answer, 400, "invalid_request", "prompt")
        assert error["message"] == "The agent replaces the system prompt, and its prompt is empty."
        assert await client.get(f"/agents/{agent['id']}") == agent
    both = await patched(client, f"/agents/{replacing['id']}", prompt="", replaces_system=False)
    assert (both["prompt"], both["replaces_system"]) == ("", False)


@pytest.mark.parametrize("name", ["name", "prompt", "reminder", "replaces_system"])
async def test_what_an_agent_must_have_is_not_taken_away(client: ServerClient, name: str) -> None:
    made = await client.post("/agents", EDITOR)
    answer = await client.call("PATCH", f"/agents/{made['id']}", json={name: None})
    error_of(answer, 400, "invalid_request", name)


async def test_a_key_makes_one_agent(client: ServerClient) -> None:
    async def post(body: Any) -> Any:
        return await client.call("POST", "/agents", json=body, headers={"Idempotency-Key": "k"})

    refused = await post({**EDITOR, "layout": "sideways"})
    assert refused.status_code == 400
    first, again = await post(EDITOR), await post(EDITOR)
    assert (first.status_code, again.json()) == (201, first.json())
    error_of(await post({**EDITOR, "name": "Other"}), 422, "idempotency_mismatch", "Idempotency-Key")
    assert len((await client.get("/agents"))["data"]) == 1


async def test_a_key_of_a_removed_agent_makes_another(client: ServerClient) -> None:
    made = []
    for _ in range(2):
        made.append(await client.post("/agents", EDITOR, headers={"Idempotency-Key": "k"}))
        await client.call("DELETE", f"/agents/{made[-1]['id']}")
    assert made[0]["id"] != made[1]["id"]


@pytest.mark.parametrize(("layout", "letters"), [("lamella", "S CA U1 R"), ("onyx", "S CA U1 R")])
async def test_a_conversation_with_an_agent_has_it_in_its_window(
    client: ServerClient, app: App, model: ScriptedModel, layout: str, letters: str
) -> None:
    model.then(saying("Hi."))
    agent = await client.post("/agents", EDITOR)
    made = await client.post("/conversations", {"agent_id": agent["id"], "layout": layout})
    assert (made["agent_id"], made["project_id"], made["layout"]) == (agent["id"], None, layout)
    mapped = await window(client, await client.send(made["id"], "Hello"))
    assert mapped["letters"] == letters
    [segment] = [segment for segment in mapped["segments"] if segment["kind"] == "agent"]
    assert (segment["source"], segment["zone"]) == (agent["id"], "fixed" if layout == "lamella" else "travelling")
    assert segment["text_preview"] == "You edit texts."
    [decision] = await settings(app, made["id"])
    assert (decision.subject, decision.outcome) == ("agent", f"{agent['id']}@1")
    assert decision.first_changed == (agent["id"] if layout == "lamella" else None)
    assert decision.why == "the agent “Editor” is used from here on"


async def test_an_edit_is_in_the_window_of_the_next_turn_and_recorded(
    client: ServerClient, app: App, model: ScriptedModel
) -> None:
    model.then(saying("One."), saying("Two."), saying("Three."))
    agent = await client.post("/agents", EDITOR)
    conversation = await client.conversation(agent_id=agent["id"])
    await client.send(conversation, "Hello")
    await patched(client, f"/agents/{agent['id']}", prompt="You cut texts.")
    mapped = await window(client, await client.send(conversation, "And now?"))
    assert mapped["letters"] == "S CA U1 A1 U2 R"
    [segment] = [segment for segment in mapped["segments"] if segment["kind"] == "agent"]
    assert segment["text_preview"] == "You cut texts."
    await client.send(conversation, "Nothing changed now")
    first, second = await settings(app, conversation)
    assert (second.outcome, second.first_changed) == (f"{agent['id']}@2", agent["id"])
    assert second.why == "the agent “Editor” was edited: this is revision 2"
    assert first.outcome == f"{agent['id']}@1"


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_an_agent_in_place_of_the_system_prompt_is_all_of_it(
    client: ServerClient, model: ScriptedModel, layout: str
) -> None:
    """`S U1`: no reminder of its own prompt, no date and no tools behind it; what is searched is cited."""
    file = await client.upload("plan.txt", b"It is blue.")
    read = ToolCall("c1", "read_file", f'{{"file_id":"{file["id"]}"}}')
    model.then(saying("One."), calling(read), saying("Blue [1]."))
    agent = await client.post("/agents", {**EDITOR, "reminder": "", "replaces_system": True})
    conversation = await client.conversation(agent_id=agent["id"], layout=layout)
    mapped = await window(client, await client.send(conversation, "Hello"))
    assert mapped["letters"] == "S U1"
    assert [one["text_preview"] for one in mapped["segments"] if one["kind"] in ("system", "sections")] == [
        "You edit texts."
    ]
    packets = await client.send(conversation, "Read it", file_ids=[file["id"]])
    last = [packet["letters"] for packet in packets if packet["type"] == "request.started"][-1]
    assert last == "S U1 A1 F U2 TC TR R"
    assert [block.value["text"] for block in model.requests[-1].blocks if block.level == "system"] == [
        "You edit texts."
    ]


async def test_an_agent_in_place_of_the_system_prompt_changes_that(
    client: ServerClient, app: App, model: ScriptedModel
) -> None:
    model.then(saying("One."), saying("Two."))
    agent = await client.post("/agents", {**EDITOR, "reminder": "", "replaces_system": True})
    conversation = await client.conversation(agent_id=agent["id"])
    mapped = await window(client, await client.send(conversation, "Hello"))
    assert mapped["letters"] == "S U1"
    assert mapped["segments"][1]["text_preview"] == "You edit texts."
    assert (await settings(app, conversation))[0].first_changed == "system"
    await patched(client, f"/conversations/{conversation}", agent_id=None)
    mapped = await window(client, await client.send(conversation, "And now?"))
    assert mapped["letters"] == "S U1 A1 U2"
    assert mapped["segments"][1]["text_preview"] != "You edit texts."
    last = (await settings(app, conversation))[-1]
    assert (last.subject, last.outcome, last.first_changed) == ("agent", "none", "system")


async def test_a_conversation_goes_on_without_an_agent_that_was_deleted_and_says_so(
    client: ServerClient, app: App, model: ScriptedModel
) -> None:
    model.then(saying("One."), saying("Two."))
    agent = await client.post("/agents", EDITOR)
    conversation = await client.conversation(agent_id=agent["id"])
    await client.send(conversation, "Hello")
    await client.call("DELETE", f"/agents/{agent['id']}")
    assert (await client.get(f"/conversations/{conversation}"))["agent_id"] is None
    mapped = await window(client, await client.send(conversation, "Still there?"))
    assert mapped["letters"] == "S U1 A1 U2"
    last = (await settings(app, conversation))[-1]
    assert (last.outcome, last.first_changed) == ("none", agent["id"])
    assert last.why == f"the agent {agent['id']} was deleted; the conversation continues without it"


async def test_an_agent_calls_only_its_own_tools(client: ServerClient, app: App, model: ScriptedModel) -> None:
    model.then(saying("One."), saying("Two."))
    agent = await client.post("/agents", {**EDITOR, "tools": []})
    conversation = await client.conversation(agent_id=agent["id"])
    mapped = await window(client, await client.send(conversation, "Hello"))
    assert "tools" not in [segment["kind"] for segment in mapped["segments"]]
    assert {"tools", "agent"} == {decision.subject for decision in await settings(app, conversation)}
    await patched(client, f"/agents/{agent['id']}", tools=None)
    mapped = await window(client, await client.send(conversation, "And now?"))
    assert mapped["segments"][0]["kind"] == "tools"
    tools = [decision for decision in await settings(app, conversation) if decision.subject == "tools"]
    assert [(one.outcome, one.first_changed) for one in tools] == [
        ("none", "tools"),
        ("knowledge_base_search, read_file, read_message, search_conversation", "tools"),
    ]


async def test_a_tool_that_an_agent_may_not_use_does_not_run(client: ServerClient, model: ScriptedModel) -> None:
    file = await client.upload("secret.txt", b"The secret is 42.")
    agent = await client.post("/agents", {**EDITOR, "tools": []})
    conversation = await client.conversation(agent_id=agent["id"])
    model.then(calling(ToolCall("c1", "read_file", f'{{"file_id":"{file["id"]}"}}')), saying("I can't."))
    packets = await client.send(conversation, "Read it", file_ids=[file["id"]])
    [result] = [packet for packet in packets if packet["type"] == "tool.result"]
    assert (result["content"], result["is_error"]) == (
        "There is no tool named read_file. No tool can be called here.",
        True,
    )
    assert packets[-1]["status"] == "finished"


async def test_what_was_decided_can_be_read(client: ServerClient, model: ScriptedModel) -> None:
    model.then(saying("One."))
    agent = await client.post("/agents", EDITOR)
    conversation = await client.conversation(agent_id=agent["id"])
    await client.send(conversation, "Hello")
    await patched(client, f"/conversations/{conversation}", layout="onyx")
    listed = (await client.get(f"/conversations/{conversation}/decisions?order=asc"))["data"]
    assert [(one["kind"], one["subject"], one["outcome"]) for one in listed] == [
        ("setting", "agent", f"{agent['id']}@1"),
        ("setting", "layout", "onyx"),
    ]
    assert listed[0]["first_changed"] == agent["id"]
    assert listed[1]["why"] == "the layout was changed from lamella to onyx"
    first = await client.get(f"/conversations/{conversation}/decisions?limit=1")
    assert (first["data"], first["has_more"]) == ([listed[1]], True)
    rest = await client.get(f"/conversations/{conversation}/decisions?limit=1&after={first['last_id']}")
    assert (rest["data"], rest["has_more"]) == ([listed[0]], False)


async def test_an_agent_brings_model_and_layout_unless_others_are_named(client: ServerClient) -> None:
    agent = await client.post("/agents", {**EDITOR, "layout": "onyx", "model": "scripted"})
    made = await client.post("/conversations", {"agent_id": agent["id"]})
    assert (made["layout"], made["marker_policy"], made["model"]) == ("onyx", "seed", "scripted")
    named = await client.post("/conversations", {"agent_id": agent["id"], "layout": "lis"})
    assert named["layout"] == "lis"
    plain = await client.post("/conversations", {})
    assert (plain["layout"], plain["agent_id"]) == ("lamella", None)
    changed = await patched(client, f"/conversations/{plain['id']}", agent_id=agent["id"])
    assert (changed["layout"], changed["agent_id"]) == ("onyx", agent["id"])
    changed = await patched(client, f"/conversations/{plain['id']}", layout="wegent", marker_policy="off")
    assert (changed["layout"], changed["marker_policy"], changed["agent_id"]) == ("wegent", "off", agent["id"])
    changed = await patched(client, f"/conversations/{plain['id']}", agent_id=None)
    assert (changed["layout"], changed["agent_id"]) == ("wegent", None)


async def test_a_turn_chooses_for_itself_alone(client: ServerClient, app: App, model: ScriptedModel) -> None:
    model.then(*(saying(word) for word in ("One.", "Two.", "Three.", "Four.")))
    own = await client.post("/agents", {"name": "Own", "prompt": "You are the conversation's."})
    guest = await client.post("/agents", {"name": "Guest", "prompt": "You are a guest.", "layout": "onyx"})
    conversation = await client.conversation(agent_id=own["id"])
    shown = []
    for fields in (
        {"agent_id": guest["id"]},
        {"agent_id": guest["id"], "layout": "lis", "marker_policy": "off"},
        {"agent_id": None},
        {},
    ):
        mapped = await window(client, await client.send(conversation, "Hello", **fields))
        agents = [segment["source"] for segment in mapped["segments"] if segment["kind"] == "agent"]
        shown.append((mapped["layout"], mapped["marker_policy"], agents))
    assert shown == [
        ("onyx", "seed", [guest["id"]]),
        ("lis", "off", [guest["id"]]),
        ("lamella", "planner", []),
        ("lamella", "planner", [own["id"]]),
    ]
    after = await client.get(f"/conversations/{conversation}")
    assert (after["agent_id"], after["layout"], after["marker_policy"]) == (own["id"], "lamella", "planner")
    layouts = [one.outcome for one in await settings(app, conversation) if one.subject == "layout"]
    assert layouts == ["onyx", "lis", "lamella"]
    agents = [one.outcome for one in await settings(app, conversation) if one.subject == "agent"]
    assert agents == [f"{guest['id']}@1", "none", f"{own['id']}@1"]


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"layout": "sideways"}, 400, "layout"),
        ({"marker_policy": "everywhere"}, 400, "marker_policy"),
        ({"agent_id": "agent_nobody"}, 404, "agent_id"),
        ({"agent_id": 7}, 400, "agent_id"),
        ({"agent_id": ""}, 404, "agent_id"),
    ],
)
async def test_a_turn_that_chooses_what_is_not_there_is_not_begun(
    client: ServerClient, model: ScriptedModel, fields: Any, status: int, param: str
) -> None:
    model.then(saying("Hi."))
    conversation = await client.conversation()
    answer = await client.call("POST", f"/conversations/{conversation}/turns", json={"text": "Hello", **fields})
    error_of(answer, status, "invalid_request" if status == 400 else "not_found", param)
    assert (await client.get(f"/conversations/{conversation}/turns"))["data"] == []
    assert (await client.send(conversation, "Hello"))[-1]["status"] == "finished"


async def test_a_reminder_that_no_window_holds_is_refused(client: ServerClient) -> None:
    answer = await client.call("POST", "/agents", json={**EDITOR, "reminder": "word " * 400_000})
    error_of(answer, 400, "invalid_request", "reminder")


async def test_what_a_running_turn_stands_on_is_not_changed_under_it(
    client: ServerClient, model: ScriptedModel
) -> None:
    gate = Gate()
    model.then([gate, *saying("One.")])
    conversation = await client.conversation()
    async with client.sending(conversation, "Hello?") as events:
        await asyncio.wait_for(gate.reached.wait(), 10)
        for fields in ({"layout": "onyx"}, {"system_prompt_version": 0}):
            answer = await client.call("PATCH", f"/conversations/{conversation}", json=fields)
            error_of(answer, 409, "turn_in_progress", None)
        assert (await client.call("PATCH", f"/conversations/{conversation}", json={"title": "Ships"})).is_success
        gate.opened.set()
        assert [event async for event in events]


async def test_a_marker_policy_that_is_its_layouts_own_goes_with_it(client: ServerClient) -> None:
    conversation = await client.conversation()
    path = f"/conversations/{conversation}"
    assert (await patched(client, path, layout="onyx"))["marker_policy"] == "seed"
    assert (await patched(client, path, layout="lamella", marker_policy="off"))["marker_policy"] == "off"
    assert (await patched(client, path, layout="lis"))["marker_policy"] == "off"


async def test_dynamic_context_that_is_no_text_is_refused(client: ServerClient) -> None:
    conversation = await client.conversation()
    body = b'{"text": "Hello?", "dynamic_context": ["a\\ud800"]}'
    headers = {"content-type": "application/json"}
    answer = await client.call("POST", f"/conversations/{conversation}/turns", content=body, headers=headers)
    error_of(answer, 400, "invalid_request", "dynamic_context.0")
