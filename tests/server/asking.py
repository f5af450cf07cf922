"""What tests of the library's routes share: refusals, and the decisions of a conversation."""

from __future__ import annotations

from typing import Any

import httpx2

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.decisions import Decision, DecisionKind
from lamella.server.testing import Object, ServerClient


def error_of(answer: httpx2.Response, status: int, code: str, param: str | None) -> Object:
    """The error of an answer that must be this one; every refusal says what to do."""
    assert answer.status_code == status, answer.text
    error: Object = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param), error
    return error


async def settings(app: App, conversation_id: str) -> list[Decision]:
    """The settings that were decided for a conversation, oldest first."""
    stored = await app.store.conversations.decisions(LOCAL_OWNER, conversation_id)
    return [one.decision for one in stored if one.decision.kind is DecisionKind.SETTING]


async def window(client: ServerClient, packets: list[Object]) -> Object:
    """The map of a turn's first request."""
    started = next(packet for packet in packets if packet["type"] == "request.started")
    return await client.get(f"/requests/{started['request_id']}/map")


async def patched(client: ServerClient, path: str, **fields: Any) -> Object:
    """The answer to a successful PATCH."""
    answer = await client.call("PATCH", path, json=fields)
    assert answer.status_code == 200, answer.text
    body: Object = answer.json()
    return body
