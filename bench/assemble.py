"""Time of a request's window: assemble, wire, chain and plan, for a long conversation and for one step more of it.

    python bench/assemble.py [--messages 1000] [--json]

The provider's SDK is not in it. "One step more" is given the line that the request before left, as the engine does.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lamella.app.providers import Endpoint, adapter
from lamella.cache.ledger import Ledger
from lamella.cache.plan import MarkerPolicy
from lamella.context.assemble import assemble
from lamella.context.input import ContextInput
from lamella.context.layouts import LAYOUTS
from lamella.core.counting import ApproximateCounter
from lamella.core.messages import (
    Attachment,
    Reasoning,
    Step,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    TurnStatus,
    UserMessage,
)
from lamella.core.ports import ChatModel
from lamella.core.prompt import Sampling, ToolSpec
from lamella.engine.request import Identity, Line, Prepared, new_request, next_line, prepare
from lamella.llm.model_table import ModelTable
from tables import arguments, emit, middle, milliseconds, show

ROUNDS = 15
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
SENTENCE = "The heat pump takes 1.9 cubic metres of river water per second and returns it three degrees colder. "
TOOLS = tuple(
    ToolSpec(f"tool_{n}", "Looks things up. " * 10, '{"type":"object","properties":{"query":{"type":"string"}}}')
    for n in range(8)
)
COUNTER = ApproximateCounter()


def turn_of(number: int, model: str) -> Turn:
    """A question, a call with its result, an answer; every tenth turn brings a file."""
    text = f"Question {number}: " + SENTENCE * 2
    files = (_file(number),) if number % 10 == 0 else ()
    user = UserMessage(f"msg_{number}", text, START + timedelta(minutes=number), "UTC", COUNTER.count(text), files)
    result = SENTENCE * 15
    call = Step(
        id=f"step_{number}_0",
        model=model,
        parts=(
            Reasoning("Let me look. " * 8, "sealed"),
            Text("I look."),
            ToolCall(f"c{number}", "tool_1", '{"query":"x"}'),
        ),
        stop_reason=StopReason.TOOL_CALLS,
        made_after="",
        tokens=COUNTER.count(result) + 60,
        results=(ToolResult(f"c{number}", "tool_1", result),),
    )
    answer = SENTENCE * 5
    last = Step(f"step_{number}_1", model, (Text(answer),), StopReason.END_TURN, "", COUNTER.count(answer))
    return Turn(f"turn_{number}", user, (call, last), TurnStatus.FINISHED)


def _file(number: int) -> Attachment:
    text = SENTENCE * 40
    return Attachment(f"file_{number}", number + 1, "notes.txt", "text/plain", len(text), COUNTER.count(text), text)


def context_of(model: ChatModel, messages: int) -> ContextInput:
    """A conversation whose finished turns have so many messages: question, call, result, answer."""
    name = model.facts.name
    history = tuple(turn_of(n, name) for n in range(messages // 4))
    now = turn_of(len(history) + 1, name)
    return ContextInput(
        model=model.facts,
        budget=1_000_000,
        sampling=Sampling(16_000, "medium"),
        system=SENTENCE * 30,
        tools=TOOLS,
        history=history,
        turn=replace(now, steps=()),
        calibration=1.4,
    )


def timed(model: ChatModel, context: ContextInput, line: Line | None) -> tuple[float, Prepared]:
    """Seconds of one request's preparation."""
    began = time.perf_counter()
    prepared = prepare(
        context, LAYOUTS["lamella"], MarkerPolicy.PLANNER, model, "bench", Ledger(), context.turn.user.sent_at, line
    )
    return time.perf_counter() - began, prepared


def assembled(context: ContextInput, line: Line | None) -> float:
    """Seconds of the assembly alone: segments, their text, their fingerprints."""
    began = time.perf_counter()
    assemble(context, LAYOUTS["lamella"], line.assembled if line else None)
    return time.perf_counter() - began


def line_after(prepared: Prepared, at: datetime) -> Line:
    """What the engine keeps of a request for the next."""
    identity = Identity("req_1", "conv_1", "turn_1", 0, "chat", at)
    return next_line(prepared, new_request(prepared, identity, MarkerPolicy.PLANNER, None), None)


async def measure(messages: int) -> list[dict[str, object]]:
    """Both adapters: median of the whole window and of one step more."""
    rows: list[dict[str, object]] = []
    for provider, name in (("anthropic", "claude-opus-5-5"), ("openai", "gpt-6.1-sol")):
        facts = ModelTable.shipped().facts(name, provider)
        model = await adapter(facts, Endpoint(provider, "http://127.0.0.1:9", "bench", 1, 0))
        context = context_of(model, messages)
        # What was decided for its files is stored with a conversation: a later request reads it.
        context = replace(context, decisions=timed(model, context, None)[1].assembled.decisions)
        finished = turn_of(len(context.history) + 1, name)
        further = replace(context, turn=replace(finished, steps=finished.steps[:1]))
        whole, step, window, window_step = [], [], [], []
        for _ in range(ROUNDS):
            seconds, prepared = timed(model, context, None)
            whole.append(seconds)
            line = line_after(prepared, START)
            step.append(timed(model, further, line)[0])
            window.append(assembled(context, None))
            window_step.append(assembled(further, line))
        await model.close()
        blocks = len(prepared.wired.blocks)
        figures = {"assemble": window, "assemble_step": window_step, "all": whole, "all_step": step}
        rows.append({"provider": provider, "blocks": blocks} | {name: middle(times) for name, times in figures.items()})
    return rows


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--messages", type=int, default=1000, help="messages of the finished turns")
    given = parser.parse_args()
    rows = asyncio.run(measure(given.messages))
    if given.json:
        emit({"messages": given.messages, "rows": rows})
        return
    columns = ("assemble", "assemble_step", "all", "all_step")
    table = [[str(row["provider"]), str(row["blocks"]), *(milliseconds(_s(row[c])) for c in columns)] for row in rows]
    show([["adapter", "blocks", "assemble", "one step more", "+ wire, chain, plan", "one step more"], *table])


def _s(value: object) -> float:
    assert isinstance(value, float)
    return value


if __name__ == "__main__":
    main()
