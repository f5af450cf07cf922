"""What a long window costs to build: assemble, wire, chain and plan, whole and with what the request before left.

    python bench/assemble.py [--turns 500] [--rounds 15] [--json]

A conversation of 1,000 messages with tool steps, files and thinking; for both adapters. The SDK's own serialisation of
the body is not in the figures.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

from lamella.agent.request import PrefixLine, RequestIdentity, draft, new_request, next_line, prepare
from lamella.cache.ledger import Ledger
from lamella.cache.planner import Facts, MarkerPolicy, plan
from lamella.cache.window import chain
from lamella.context.assemble import assemble
from lamella.context.input import ContextInput
from lamella.context.layouts import LAYOUTS
from lamella.core.decisions import Decision
from lamella.core.messages import (
    AnswerPart,
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
from lamella.llm import anthropic, openai
from lamella.llm.model_table import ModelTable
from tables import arguments, emit, middle, milliseconds, show

MODELS = ("claude-opus-5-5", "gpt-6.1-terra")
LAYOUT = LAYOUTS["lamella"]
ACCOUNT = "bench"
BEGUN = datetime(2026, 3, 1, 9, tzinfo=UTC)
POLICY = MarkerPolicy.PLANNER
WORDS = [
    "the",
    "light",
    "of",
    "a",
    "tower",
    "over",
    "the",
    "sea",
    "was",
    "seen",
    "by",
    "ships",
    "that",
    "came",
    "home",
    "late",
    "in",
    "a",
    "storm",
    "from",
    "far",
]
TOOL = ToolSpec("search", "Searches the archive.", '{"type":"object","properties":{"query":{"type":"string"}}}')


def model_of(name: str) -> ChatModel:
    """The adapter of a model; nothing is sent."""
    if name.startswith("gpt-"):
        facts = ModelTable.shipped().facts(name, "openai")
        return openai.connect(facts, base_url="http://localhost/v1", key=ACCOUNT, timeout=1, retries=0)
    facts = ModelTable.shipped().facts(name, "anthropic")
    return anthropic.connect(facts, base_url="http://localhost", key=ACCOUNT, timeout=1, retries=0)


class Conversation:
    """A generated conversation, played turn by turn so that its thinking is bound to what stood before it."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._random = random.Random(7)
        self._decisions: tuple[Decision, ...] = ()
        self.history: tuple[Turn, ...] = ()

    def text(self, words: int) -> str:
        """So many words."""
        return " ".join(self._random.choices(WORDS, k=words)) + "."

    def context(self, turn: Turn) -> ContextInput:
        """The input of the next request of `turn`."""
        return ContextInput(
            model=self._model.facts,
            budget=900_000,
            sampling=Sampling(16_000, "medium"),
            system=" ".join(WORDS * 20),
            tools=(TOOL,),
            history=self.history,
            turn=turn,
            decisions=self._decisions,
        )

    def play(self, turns: int) -> None:
        """Append turns: every third calls a tool, every twentieth brings a file, every second thinks."""
        previous = None
        for number in range(turns):
            turn = self.question(number)
            for last in (False, True) if number % 3 == 0 else (True,):
                made = assemble(self.context(turn), LAYOUT, previous)
                previous = made
                self._decisions += made.decisions
                turn = self.step(turn, made.report.durable, last=last, thinks=number % 2 == 0)
            self.history += (replace(turn, status=TurnStatus.FINISHED),)

    def question(self, number: int) -> Turn:
        """A turn with its user message."""
        id = f"turn_{number:06d}"
        sent = BEGUN + timedelta(minutes=3 * number)
        files = (self._file(number),) if number % 20 == 0 else ()
        return Turn(id, UserMessage(f"msg_{number:06d}", self.text(30), sent, "UTC", 40, files))

    def _file(self, number: int) -> Attachment:
        return Attachment(
            file_id=f"file_{number:06d}",
            document=number // 20 + 1,
            title=f"report {number}.txt",
            media_type="text/plain",
            size=4_000,
            tokens=800,
            text=self.text(700),
        )

    def step(self, turn: Turn, made_after: str, *, last: bool, thinks: bool) -> Turn:
        """The turn with one step more."""
        id = f"{turn.id}_{len(turn.steps)}"
        thought: tuple[AnswerPart, ...] = (Reasoning(self.text(40), signature="s" * 300),) if thinks else ()
        call = ToolCall(f"call_{id}", "search", f'{{"query": "{self.text(4)}"}}')
        said: tuple[AnswerPart, ...] = (Text(self.text(90)),) if last else (call,)
        made = Step(
            id=id,
            model=self._model.facts.name,
            parts=thought + said,
            stop_reason=StopReason.END_TURN if last else StopReason.TOOL_CALLS,
            made_after=made_after,
            tokens=150,
            results=() if last else (ToolResult(call.id, "search", self.text(150)),),
        )
        return replace(turn, steps=(*turn.steps, made))


@dataclass(frozen=True, slots=True)
class Figures:
    """Median seconds; `parts` are those of a window built whole."""

    model: str
    turns: int
    segments: int
    blocks: int
    body_bytes: int
    whole: float
    step_more: float
    turn_more: float
    row: float
    parts: dict[str, float]


def timed(rounds: int, work: Callable[[], object]) -> float:
    """The median time of some runs, after one that is not counted."""
    work()
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return middle(found)


def measure(name: str, turns: int, rounds: int) -> Figures:
    """The figures of one adapter."""
    model, ledger = model_of(name), Ledger()
    talk = Conversation(model)
    talk.play(turns)
    now = BEGUN + timedelta(minutes=3 * turns)
    first = talk.question(turns)
    line = line_of(model, talk.context(first), ledger, now, None)
    stepped = talk.step(first, line.assembled.report.durable, last=False, thinks=True)
    ended = talk.step(stepped, "", last=True, thinks=True)
    ahead = line_of(model, talk.context(stepped), ledger, now, line)
    step_more = talk.context(stepped)
    whole = talk.context(first)

    def built(context: ContextInput, before: PrefixLine | None) -> Callable[[], object]:
        return lambda: prepare(draft(context, LAYOUT, model, ACCOUNT, before), POLICY, ledger, now)

    prepared = prepare(draft(step_more, LAYOUT, model, ACCOUNT, line), POLICY, ledger, now)
    row = timed(rounds, lambda: new_request(prepared, identity(now), POLICY, line))
    parts = parts_of(model, whole, ledger, now, rounds)
    at_whole, at_step = timed(rounds, built(whole, None)), timed(rounds, built(step_more, line))
    talk.history += (replace(ended, status=TurnStatus.FINISHED),)
    turn_more = timed(rounds, built(talk.context(talk.question(turns + 1)), ahead))
    blocks = prepared.wired.blocks
    size = sum(len(block.data) for block in blocks)
    return Figures(
        name, turns, len(prepared.wired.segments), len(blocks), size, at_whole, at_step, turn_more, row, parts
    )


def line_of(
    model: ChatModel, context: ContextInput, ledger: Ledger, now: datetime, before: PrefixLine | None
) -> PrefixLine:
    """What a request leaves behind."""
    prepared = prepare(draft(context, LAYOUT, model, ACCOUNT, before), POLICY, ledger, now)
    return next_line(prepared, new_request(prepared, identity(now), POLICY, before), before)


def identity(now: datetime) -> RequestIdentity:
    """The names of a request that is never stored."""
    return RequestIdentity("req_1", "conv_1", "turn_1", 0, "chat", now)


def parts_of(model: ChatModel, context: ContextInput, ledger: Ledger, now: datetime, rounds: int) -> dict[str, float]:
    """Each part of building a window whole, by itself."""
    assembled = assemble(context, LAYOUT)
    wired = model.wire(assembled.prompt)
    salts = model.salts(assembled.prompt.sampling)
    keys = chain(wired.blocks, ACCOUNT, salts)
    facts = Facts(model.facts, {s.id: s for s in assembled.prompt.segments}, context.calibration, now)
    return {
        "assemble": timed(rounds, lambda: assemble(context, LAYOUT)),
        "wire": timed(rounds, lambda: model.wire(assembled.prompt)),
        "chain": timed(rounds, lambda: chain(wired.blocks, ACCOUNT, salts)),
        "plan": timed(rounds, lambda: plan(keys, ledger, facts, POLICY)),
    }


def table(found: Sequence[Figures]) -> list[list[str]]:
    """A line for each adapter."""
    parts = list(found[0].parts)
    rows = [["model", "segments", "blocks", "bytes", "whole", "a step more", "a turn more", "row", *parts]]
    for f in found:
        times = [f.whole, f.step_more, f.turn_more, f.row, *(f.parts[part] for part in parts)]
        sizes = [str(f.segments), str(f.blocks), f"{f.body_bytes:,}"]
        rows.append([f.model, *sizes, *map(milliseconds, times)])
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    found = [measure(name, options.turns, options.rounds) for name in MODELS]
    if options.json:
        emit([asdict(f) for f in found])
    else:
        show(table(found))


if __name__ == "__main__":
    main()
