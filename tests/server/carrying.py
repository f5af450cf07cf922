"""A server over the simulator with tools of every kind, and what was sent there against what a replay sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from lamella.app.app import App
from lamella.core.errors import ToolFailed
from lamella.core.prompt import ToolSpec, WhenOld
from lamella.core.records import FoundDocument
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolOutput, ToolScope
from lamella_lab.replay.report import ReplayReport
from lamella_lab.replay.run import replay
from lamella_lab.trace.format import Trace
from lamella_lab.trace.reader import parse_trace
from lamella_simulator.testing import running

WORDS = "The heat pump of the northern mill was inspected in March and found to be in good order. "
CHINESE = "北方磨坊的热泵三月检查过，状态良好。"
RUSSIAN = "Тепловой насос мельницы проверен в марте. "
GREEK = "Η αντλία θερμότητας ελέγχθηκε τον Μάρτιο. "
ARABIC = "تم فحص المضخة الحرارية في مارس. "
LANGUAGES = (WORDS, CHINESE, RUSSIAN, GREEK, ARABIC, '😀 Ünïcode "quoted" back\\slash\ttab\u0001 ')


class Looking:
    """A search whose results are in several languages."""

    spec = ToolSpec("look", "Looks something up.", '{"type":"object","properties":{"query":{"type":"string"}}}')
    kind = ToolKind.SEARCH
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> ToolOutput:
        asked = str(call.arguments.get("query", ""))
        text = f"{asked}: {LANGUAGES[len(asked) % len(LANGUAGES)] * (1 + len(asked) % 7)}"
        return ToolOutput(text, (asked, f"{asked} again") if len(asked) % 2 else ())


class Condensing:
    """A tool whose old results are condensed by a model."""

    kind = ToolKind.OTHER
    timeout = 5.0

    def __init__(self, name: str, when_old: WhenOld) -> None:
        self.spec = ToolSpec(name, "Reads a long page. It gives all of it.", '{"type":"object"}', when_old)

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return f"Page {call.arguments.get('n', 0)}. {WORDS * 12}"


class Opening:
    """A tool that brings a document into the conversation."""

    spec = ToolSpec("open", "Opens a page.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        assert scope.documents is not None
        text = f"The page {call.arguments.get('n', 0)} says: {CHINESE}"
        kept = await scope.documents.keep(FoundDocument("A page", "text/html", text, 99, "https://example.org/"))
        return f"Document {kept.document}, {kept.file_id}."


class Failing:
    """A tool that fails."""

    spec = ToolSpec("fail", "Fails.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        raise ToolFailed("It can't be done: “no” ≠ yes.", hint="Ask for less.")


class Waiting:
    """A tool that never comes back."""

    spec = ToolSpec("wait", "Waits.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 60.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        await asyncio.sleep(60)
        return "late"


class Acting:
    """A tool that changes something outside: of several models one alone may."""

    spec = ToolSpec("act", "Acts.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0
    side_effects = True

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return "Done."


TOOLS = (
    Looking(),
    Condensing("read", "prune"),
    Condensing("condense", "digest"),
    Condensing("keep", "summarize"),
    Opening(),
    Failing(),
    Waiting(),
    Acting(),
)


def call(name: str, id: str = "", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments} | ({"id": id} if id else {})


REPLIES: dict[str, dict[str, Any]] = {
    "summary": {
        "match": "Summarise this conversation now",
        "text": f"# Facts\nThe northern mill has a heat pump. {CHINESE}",
    },
    "title": {"match": "Nothing between those two marks|<conversation>", "text": "Die Pumpe der Mühle"},
    "mine": {"match": "^mine", "tool_calls": [call("look", query="x"), call("keep_for_me", note="насос")]},
    "both": {
        "match": "both",
        "text": "I look.",
        "tool_calls": [call("look", query="насос"), call("look", query="热泵 😀")],
    },
    "page": {"match": "page", "reasoning": "A page.", "tool_calls": [call("read", n=1), call("read", n=2)]},
    "digest": {"match": "condensed", "tool_calls": [call("condense", n=3), call("condense", n=4)]},
    "kept": {"match": "kept", "tool_calls": [call("keep", n=5)]},
    "opened": {"match": "opened", "tool_calls": [call("open", n=6)]},
    "failing": {"match": "failing", "tool_calls": [call("fail"), call("nothing"), call("look", query="x")]},
    "acting": {"match": "acting", "tool_calls": [call("act")]},
    "waiting": {"match": "waiting", "text": "Wait.", "tool_calls": [call("look", query="y"), call("wait")]},
    "slowly": {"match": "slowly", "text": "Слово и слово. " * 40, "ms": 4_000, "chunk": 12},
    "overload": {"match": "overload", "text": "No.", "fault": {"kind": "529", "times": 99}},
    "broken": {"match": "broken", "text": WORDS, "fault": {"kind": "stream_error", "when": 30, "times": 99}},
    "empty": {"match": "empty", "text": "", "fault": {"kind": "empty", "times": 99}},
    "limited": {"match": "limited", "text": WORDS * 3, "fault": {"kind": "max_tokens", "when": 50, "times": 99}},
    "refused": {"match": "refused", "text": WORDS, "fault": {"kind": "refusal", "when": 20, "times": 99}},
    "cut": {"match": "cut off", "tool_calls": [call("look", query="long")], "fault": {"kind": "truncated_tool_json"}},
    "said": {"match": "said", "reasoning": "Hm, 嗯。", "text": "Gesagt: „ja“. " + CHINESE},
}
"""What the simulated model answers where one of these words is in what was said last."""


@asynccontextmanager
async def carrier(
    data: Path, replies: Mapping[str, dict[str, Any]] | None = None, **settings: Any
) -> AsyncIterator[tuple[App, ServerClient]]:
    """A server over a simulator that speaks both vendors' protocols, and answers with these."""
    with running("--clock", "system") as url:
        usual = {
            "anthropic_base_url": url,
            "anthropic_api_key": "key",
            "openai_base_url": f"{url}/v1",
            "openai_api_key": "key",
            "openai_api": "responses",
            "provider_retries": 0,
            "debounce_ms": 0,
        }
        async with httpx2.AsyncClient(base_url=url, trust_env=False) as simulator:
            (await simulator.post("/_sim/replies", json=REPLIES if replies is None else replies)).raise_for_status()
        async with served(read_settings(data=data, **usual | settings), more_tools=TOOLS) as opened:
            yield opened


@dataclass(frozen=True)
class CarriedSummary:
    """A conversation that was exported, its replay, and the bodies that were sent when it was held, in order."""

    raw: dict[str, Any]
    trace: Trace
    report: ReplayReport
    bodies: Sequence[bytes]

    @property
    def letters(self) -> list[str]:
        """The windows of the replay."""
        return [request.record.letters for request in self.report.requests]

    @property
    def replayed(self) -> list[bytes]:
        return [request.body for request in self.report.requests]


async def rested(client: ServerClient, conversation: str) -> None:
    """Come back when nothing runs in the background of a conversation."""
    async with asyncio.timeout(20):
        while (await client.get(f"/conversations/{conversation}/context"))["compacting"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def unchanging(client: ServerClient, conversation: str) -> None:
    """Come back when no request was added for a moment: background work may begin just after an answer."""
    before: list[bytes] = []
    async with asyncio.timeout(20):
        while (now := await bodies_of(client, conversation)) != before:
            before = now
            await asyncio.sleep(0.1)
            await rested(client, conversation)


async def bodies_of(client: ServerClient, conversation: str) -> list[bytes]:
    """The body of every request of a conversation, as it was sent."""
    found = []
    after: dict[str, str] = {}
    while True:
        page = await client.get(f"/conversations/{conversation}/tree?limit=100&order=asc" + after.get("query", ""))
        for turn in page["data"]:
            for request in (await client.get(f"/turns/{turn['id']}/requests"))["data"]:
                raw = await client.call("GET", f"/requests/{request['id']}/raw")
                found.append((request["at"], request["id"], raw.content))
        if not page["has_more"]:
            return [body for _, _, body in sorted(found)]
        after["query"] = f"&after={page['data'][-1]['id']}"


async def carried(client: ServerClient, conversation: str, query: str = "") -> CarriedSummary:
    """Export a conversation over HTTP and replay it."""
    answer = await client.call("GET", f"/conversations/{conversation}/export{query}")
    assert answer.status_code == 200, answer.text
    trace = parse_trace(answer.content)
    return CarriedSummary(json.loads(answer.content), trace, await replay(trace), await bodies_of(client, conversation))


async def assert_carried(client: ServerClient, conversation: str) -> CarriedSummary:
    """With its content, every body comes again, byte for byte, and no other; without, all letters and lengths."""
    await unchanging(client, conversation)
    found = await carried(client, conversation)
    for request in found.report.requests:
        where = (request.number, request.turn, request.run, request.record.purpose, request.record.letters)
        assert request.body in found.bodies, (where, request.recorded and request.recorded.letters)
    assert sorted(found.replayed) == sorted(found.bodies)
    assert found.bodies
    assert [request.difference for request in found.report.differing] == []
    assert found.report.lost == 0
    blank = await carried(client, conversation, "?content=false")
    assert [(request.number, request.difference) for request in blank.report.differing] == []
    assert blank.report.lost == 0
    assert blank.letters == found.letters
    return found
