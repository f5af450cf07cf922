"""The loop as a library: a model, a message, functions as tools, hooks; packets, turns and bills come back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import pytest

import lamella.agent
from lamella.agent import AgentTurn, Fallback, RunHooks, function_tool, run
from lamella.agent.inputs import RunInput, TurnInput
from lamella.core import deltas
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ConfigurationError, ProviderUnreachable
from lamella.core.messages import Attachment, StopReason, ToolCall, TurnStatus
from lamella.core.packets import Packet, TextPacket, ToolResultPacket
from lamella.core.records import FoundDocument, NewRequest
from lamella.core.tokens import Usage
from lamella.llm.scripted import Gate, ScriptedModel, calling, saying
from lamella.tooling.tool import Invocation, Verdict

from .talking import Talk, of

pytestmark = pytest.mark.anyio


async def add(a: int, b: Annotated[int, msgspec.Meta(description="The other number")] = 1) -> str:
    """Add two numbers."""
    return str(a + b)


def adding(a: int, b: int, id: str = "c1") -> ToolCall:
    return ToolCall(id, "add", f'{{"a":{a},"b":{b}}}')


async def test_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The example of the package's docstring runs as it stands."""
    example = textwrap.dedent((lamella.agent.__doc__ or "").split("\n\n", 2)[2])
    names = vars(lamella.agent) | {"ToolCall": ToolCall, "ScriptedModel": ScriptedModel}
    names |= {"calling": calling, "saying": saying}
    exec(f"async def main() -> None:\n{textwrap.indent(example, '    ')}", names)
    await names["main"]()
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].startswith("It is 5. It is 9. 0.00")
    kinds = [line.partition("(")[0] for line in printed[:-1]]
    assert " ".join(kinds[:6]) == (
        "RunStarted RequestStarted ToolCallPacket ToolArgsPacket UsagePacket ToolResultPacket"
    )
    assert kinds[-1] == "RunFinished"


def test_no_database_no_web_framework_and_no_sdk_is_loaded() -> None:
    heavy = ("sqlalchemy", "aiosqlite", "alembic", "fastapi", "starlette", "uvicorn", "anthropic", "openai", "httpx2")
    code = f"import sys, lamella.agent, lamella.llm.scripted; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


async def test_a_turn_has_its_steps_and_the_next_one_goes_on_from_it() -> None:
    model = ScriptedModel([calling(adding(2, 3), text="Let me see."), saying("It is 5."), saying("It is 9.")])
    talk = Talk(model, add, system="You are a calculator.")
    packets = await talk.send("What is 2 + 3?")
    answer = talk.answer
    assert answer is not None
    assert [packet["content"] for packet in of(packets, "tool.result")] == ["5"]
    assert [step.text for step in answer.turn.steps] == ["Let me see.", "It is 5."]
    assert (answer.text, answer.turn.status, answer.usage) == ("It is 5.", TurnStatus.FINISHED, Usage(200, output=20))
    assert answer.cost == packets[-1]["cost"] > 0
    later = await talk.send("And 4 more?")
    assert of(later, "request.started")[0]["letters"] == "S U1 TC TR A1 U2"
    first, last = ([block.data for block in request.blocks] for request in model.requests[1:])
    assert last[: len(first)] == first, "what was sent stays, byte for byte"


async def test_hooks_hear_of_packets_and_requests_before_they_are_sent() -> None:
    model = ScriptedModel([saying("Hello.")])

    class Heard(RunHooks):
        def __init__(self) -> None:
            self.packets: list[Packet] = []
            self.requests: list[tuple[str, int]] = []

        def emit(self, packet: Packet) -> None:
            self.packets.append(packet)

        async def request(self, new: NewRequest) -> None:
            self.requests.append((new.record.letters, len(model.requests)))

    heard = Heard()
    packets = [packet async for packet in run(model, AgentTurn("Hi"), hooks=heard)]
    assert heard.packets == packets
    assert heard.requests == [("U1", 0)] or heard.requests == [("S U1", 0)]


class Paying:
    """A tool whose calls wait for the user."""

    def __init__(self) -> None:
        self.spec = function_tool(add).spec
        self.kind = function_tool(add).kind
        self.timeout = 5.0
        self.needs_approval = True
        self.paid: list[str] = []

    async def run(self, scope: object, call: Invocation) -> str:
        self.paid.append(call.id)
        return "paid"


class Asked(RunHooks):
    async def approve(self, call: Invocation, name: str) -> Verdict:
        return Verdict(call.arguments["a"] == 1, "too much")


async def test_calls_that_need_an_approval_are_denied_unless_a_hook_asks() -> None:
    for hooks, expected in ((None, []), (Asked(), ["c1"])):
        tool = Paying()
        talk = Talk(ScriptedModel([calling(adding(1, 1), adding(2, 1, "c2")), saying("Done.")]), tool, hooks=hooks)
        packets = await talk.send("Pay")
        assert tool.paid == expected
        assert [verdict["approved"] for verdict in of(packets, "tool.verdict")].count(True) == len(expected)


async def test_a_failure_is_a_packet_and_no_exception() -> None:
    talk = Talk(ScriptedModel([[ProviderUnreachable("Nobody answers.")]]))
    packets = await talk.send("Hi")
    assert [packet["type"] for packet in packets[-2:]] == ["error", "run.finished"]
    assert talk.answer is not None
    assert (str(talk.answer.error), talk.answer.turn.status) == ("Nobody answers.", TurnStatus.FAILED)


async def test_a_fallback_answers_and_the_decision_is_told() -> None:
    other = ScriptedModel([saying("Here I am.")])
    given = AgentTurn("Hi")

    class Fallbacks(RunHooks):
        def __init__(self) -> None:
            self.decisions: list[Decision] = []

        async def fallback(self, run_id: str) -> Fallback | None:
            turn, first = run(other, given).inputs
            return Fallback(turn, first, None)

        async def decided(self, decisions: Sequence[Decision]) -> None:
            self.decisions += decisions

    hooks = Fallbacks()
    answer = run(ScriptedModel([[ProviderUnreachable("Nobody answers.")]]), given, hooks=hooks)
    texts = [packet.text async for packet in answer if isinstance(packet, TextPacket)]
    assert texts == ["Here I am."]
    assert [decision.kind for decision in hooks.decisions] == [DecisionKind.FALLBACK]


async def test_breaking_off_stops_the_run() -> None:
    gate = Gate()
    model = ScriptedModel([[deltas.TextDelta(0, "One"), gate, *saying(" two.")]])
    answer = run(model, AgentTurn("Count"))
    packets = aiter(answer)
    async for packet in packets:
        if isinstance(packet, TextPacket):
            break
    await packets.aclose()  # type: ignore[attr-defined]  # an async generator
    assert (answer.text, answer.turn.status, model.left) == ("One", TurnStatus.STOPPED, 1)
    assert answer.turn.steps[0].stop_reason is StopReason.USER_CANCELLED


async def test_a_hook_stops_a_run() -> None:
    stop = asyncio.Event()

    class Stopping(RunHooks):
        async def stopped(self, run_id: str) -> None:
            await stop.wait()

    model = ScriptedModel([[deltas.TextDelta(0, "One"), Gate(), *saying(" two.")]])
    answer = run(model, AgentTurn("Count"), hooks=Stopping())
    async for packet in answer:
        if isinstance(packet, TextPacket):
            stop.set()
    assert (answer.text, answer.turn.status) == ("One", TurnStatus.STOPPED)


async def test_long_results_are_cut_and_kept_where_a_hook_keeps_them() -> None:
    class Shelf(RunHooks):
        async def keep_document(self, found: FoundDocument, tokens: int) -> Attachment:
            return Attachment("doc_1", 1, found.title, found.media_type, found.size, tokens, found.text, found=True)

    async def long() -> str:
        """Says much."""
        return "word " * 40_000

    for hooks, said in ((None, "could not be kept"), (Shelf(), "read on with read_file, file_id doc_1")):
        model = ScriptedModel([calling(ToolCall("c1", "long", "{}")), saying("Done.")])
        results = [p async for p in run(model, AgentTurn("Go"), [long], hooks) if isinstance(p, ToolResultPacket)]
        assert said in results[0].content[:400]


@dataclass
class Point:
    x: float
    y: float


def test_the_schema_of_a_function() -> None:
    async def plot(points: list[Point], title: str = "", *, grid: bool | None = None) -> str:
        """Plot points.

        As a picture.
        """
        return f"{len(points)} {title} {grid}"

    spec = function_tool(plot).spec
    assert (spec.name, spec.description) == ("plot", "Plot points.\n\nAs a picture.")
    assert msgspec.json.decode(spec.input_schema) == {
        "type": "object",
        "properties": {
            "points": {"type": "array", "items": {"$ref": "#/$defs/Point"}},
            "title": {"type": "string", "default": ""},
            "grid": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
        },
        "required": ["points"],
        "additionalProperties": False,
        "$defs": {
            "Point": {
                "title": "Point",
                "type": "object",
                "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                "required": ["x", "y"],
            }
        },
    }


def untyped(a, b=1):  # type: ignore[no-untyped-def]
    return a + b


def starred(*numbers: int) -> int:
    return sum(numbers)


@pytest.mark.parametrize("function", [untyped, starred])
def test_a_function_that_can_be_no_tool_is_refused(function: object) -> None:
    with pytest.raises(ConfigurationError, match="can't be a tool"):
        function_tool(function)  # type: ignore[arg-type]


async def test_functions_get_what_their_types_say_and_may_return_data() -> None:
    def far(point: Point) -> dict[str, float]:
        """How far away a point is."""
        return {"distance": abs(point.x) + abs(point.y)}

    calls = (ToolCall("c1", "far", '{"point":{"x":1,"y":-2}}'), ToolCall("c2", "far", '{"point":{"x":"no"}}'))
    packets = await Talk(ScriptedModel([calling(*calls), saying("Done.")]), far).send("Go")
    good, bad = sorted(of(packets, "tool.result"), key=lambda packet: packet["call_id"])
    assert (good["content"], good["is_error"]) == ('{"distance":3.0}', False)
    assert bad["is_error"]


def test_what_a_run_is_given() -> None:
    turn, given = run(ScriptedModel(), AgentTurn("Hi", system="Be kind.", budget=5_000, step_limit=3), [add]).inputs
    assert isinstance(turn, TurnInput)
    assert isinstance(given, RunInput)
    assert (turn.system, [tool.name for tool in turn.tools]) == ("Be kind.", ["add"])
    assert (given.budget, given.step_limit, given.most) == (5_000, 3, 5_000)
