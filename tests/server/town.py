"""A user who has something of everything, for tests of who may see it."""

from __future__ import annotations

from lamella.app.accounts import KeyRequest
from lamella.app.app import App
from lamella.core import deltas
from lamella.core.access import Identity, Role
from lamella.core.json import encode
from lamella.core.records import Caller, FoundDocument, PageQuery, Replacement, ReplacementKind
from lamella.gateway.dialects import Dialect
from lamella.gateway.exchange import Exchange, Route
from lamella.llm.model_table import facts
from lamella.llm.scripted import Gate, ScriptedModel, saying
from lamella.llm.upstream import Upstream
from lamella.server.testing import ServerClient


def model_of_the_town() -> ScriptedModel:
    """It answers one message, and is not done with the next."""
    return ScriptedModel([saying("For Ann's eyes [1]."), [deltas.TextDelta(0, "Half"), Gate()]])


async def line_of(app: App, owner: Caller) -> str:
    """The id of a line with one request of a client."""
    body = encode({"model": "gpt-6.1-terra", "messages": [{"role": "user", "content": "What is the secret?"}]})
    answer = {"id": "c1", "choices": [{"message": {"content": "For Ann's eyes."}, "finish_reason": "stop"}]}
    route = Route(Upstream("Test", "", 1), "", "", "gpt-6.1-terra", "account", facts("gpt-6.1-terra"), Dialect.CHAT)
    passed = Exchange(owner, Dialect.CHAT, "a client", None, route, body, app.clock.now(), status=200)
    passed.answer.append(encode(answer))
    app.gateway.recorder.take(passed)
    await app.gateway.recorder.drain()
    [line] = (await app.store.lines.lines(owner, PageQuery())).data
    return line.id


async def replacement_of(app: App, owner: Caller, line_id: str) -> str:
    """The id of a summary that stands in the place of a line's messages."""
    made = Replacement(
        id=app.ids.new("replacement"),
        dialect=Dialect.CHAT,
        key="key of Ann's messages",
        kind=ReplacementKind.SUMMARY,
        made_at=app.clock.now(),
        why="Ann asked for it",
        texts=("The secret is 42.",),
        summary="The secret is 42.",
        conversation_id=line_id,
    )
    return (await app.store.lines.add_replacement(owner, made)).id


async def furnished(app: App, ann: ServerClient, owner: Caller) -> dict[str, str]:
    """Give Ann something of everything; its ids by noun. One turn has ended, one runs, and a message waits."""
    file = await ann.upload("secret.txt", b"The secret is 42.")
    agent = await ann.post("/agents", {"name": "Ann's secret agent", "prompt": "Keep the secret."})
    project = await ann.post("/projects", {"name": "Ann's secret project", "file_ids": [file["id"]]})
    await ann.post("/system-prompts", {"text": "You know a secret."})
    chosen = {"agent_id": agent["id"], "project_id": project["id"]}
    conversation = await ann.conversation(title="Ann's secret", **chosen)
    packets = await ann.send(conversation, "What is the secret?", file_ids=[file["id"]])
    [request] = [packet for packet in packets if packet["type"] == "request.started"]
    async with ann.sending(conversation, "Go on") as events:
        running = [(await anext(events)).packet for _ in range(4)]
    waits = await ann.call(
        "POST",
        f"/conversations/{conversation}/turns",
        json={"text": "Ann's secret thought"},
        headers={"accept": "application/json"},
    )
    page = FoundDocument("Ann's page", "text/html", "The secret is 42.", 17, "https://example.org/")
    found = await app.store.documents.keep_document(owner, conversation, page, 5, app.clock.now())
    order = KeyRequest(owner.user_id, "Ann's secret key")
    key = await app.accounts.create_key(Identity(owner, "ann", Role.MEMBER), order)
    group = await app.accounts.create_group("Ann's secret group")
    base = await ann.post("/knowledge-bases", {"name": "Ann's secret base"})
    upload = {"file": ("secret.md", b"The secret is 42.")}
    document = (await ann.call("POST", f"/knowledge-bases/{base['id']}/documents", files=upload)).json()
    line = await line_of(app, owner)
    return {
        "doc": document["id"],
        "key": key.key.id,
        "group": group.id,
        "base": base["id"],
        "user": owner.user_id,
        "document": found.file_id,
        "call": "c1",
        "conversation": conversation,
        "file": file["id"],
        "turn": packets[0]["turn_id"],
        "response": packets[0]["turn_id"].replace("turn_", "resp_"),
        "running": running[0]["turn_id"],
        "item": packets[0]["turn_id"].replace("turn_", "msg_"),
        "run": next(packet["run_id"] for packet in running if packet["type"] == "run.started"),
        "message": waits.json()["id"],
        "request": request["request_id"],
        "agent": agent["id"],
        "project": project["id"],
        "line": line,
        "replacement": await replacement_of(app, owner, line),
        "session": (await ann.get(f"/conversations/{conversation}/sessions"))["data"][0]["id"],
    }
