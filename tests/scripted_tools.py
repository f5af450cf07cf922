"""Tools that wait and find, and what a request says of reminders and results."""

from __future__ import annotations

import asyncio
import json

from lamella.agent.reminders import CITATION, LAST_STEP, OPEN_PAGES
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec, WireRequest
from lamella.tooling.tool import Invocation, ToolKind, ToolScope


class Wait:
    """Comes back after the milliseconds that a call names, with its id."""

    spec = ToolSpec("wait", "Waits.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        await asyncio.sleep(float(str(call.arguments.get("ms", 0))) / 1000)
        return f"result of {call.id}"


class WebSearch:
    """Finds what a call says it finds."""

    spec = ToolSpec("web_search", "Searches the web.", '{"type":"object"}')
    kind = ToolKind.SEARCH
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return str(call.arguments["finds"])


def finding(id: str, finds: str) -> ToolCall:
    return ToolCall(id, "web_search", json.dumps({"finds": finds}))


def wait(id: str, ms: int = 0) -> ToolCall:
    return ToolCall(id, "wait", f'{{"ms":{ms}}}')


def reminders(request: WireRequest) -> list[str]:
    """What the request's last block reminds of."""
    last = str(request.blocks[-1].value.get("text", ""))
    found = [text for text in (CITATION, OPEN_PAGES, LAST_STEP) if text in last]
    assert sorted(found, key=last.index) == found
    return found


def results(request: WireRequest) -> list[tuple[str, str]]:
    blocks = [block.value for block in request.blocks if block.value.get("type") == "tool_result"]
    return [(str(block["tool_use_id"]), str(block.get("content", ""))) for block in blocks]
