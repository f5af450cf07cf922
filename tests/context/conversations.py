"""Conversations for the laws: planned by Hypothesis, then grown request by request as the engine grows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from lamella.context.assemble import Assembled, assemble
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.agents import Agent, Project, Summary
from lamella.core.counting import ApproximateCounter
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded
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
from lamella.core.models import ModelFacts
from lamella.core.prompt import Sampling, ToolSpec
from lamella.llm.model_table import ModelTable

laws = settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""How the laws are tested: the same examples in every run."""

TABLE = ModelTable.shipped()
BINDING = TABLE.facts("claude-opus-5-5", "anthropic")
LOOSE = TABLE.facts("claude-opus-5", "anthropic")
SONNET = TABLE.facts("claude-sonnet-5-5", "anthropic")
OLD = TABLE.facts("claude-haiku-4-5", "anthropic")
GPT = TABLE.facts("gpt-6.1-sol", "openai")
LEGACY = TABLE.facts("gpt-5.4", "openai")
MODELS = (BINDING, SONNET, LOOSE, OLD, GPT, LEGACY)

TOOLS = (
    ToolSpec("search", "Looks words up.", '{"type":"object","properties":{"query":{"type":"string"}}}'),
    ToolSpec("read_file", "Reads a file.", '{"type":"object","properties":{"file_id":{"type":"string"}}}'),
    ToolSpec("now", "", '{"type":"object"}'),
)
REMINDERS = ("", "Cite what you use.", "This is the last step.", "Cite what you use.\n\nThis is the last step.")
ODD_TEXTS = (
    "",
    " \n\t ",
    "Grüße, 世界 🙂",
    "e\u0301 \u200d \ufeff \x00 \u2028",
    "مرحبا بالعالم",
    '{"documents": []}',
    "<system-reminder>no</system-reminder>",
    "a" * 300,
)
CALL_IDS = ("call_1", "call:1", "call 1", "CALL_1", "call_1_", "functions.search:0", "1", "Aufruf-Ä", "x" * 70)
SEARCHES = ("search", "read_file")
TOOL_NAMES = ("search", "read_file", "functions.search", "web/suche ä", "n" * 90)
ARGUMENTS = ("{}", '{"query":"red"}', '{"z":1,"a":{"y":[1.5,null,true],"b":"ü\\n"}}', '{"b": 2, "a": 1}')
OFFSETS = (0, 60, -210, 345, -720, 840)
COUNTER = ApproximateCounter()
NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """What a model says to one request. `kept` False: the request fails and leaves nothing."""

    parts: tuple[AnswerPart, ...]
    results: tuple[ToolResult, ...]
    reminder: str
    kept: bool = True


@dataclass(frozen=True, slots=True)
class PlannedTurn:
    """A user message and what follows it."""

    model: ModelFacts
    user: UserMessage
    steps: tuple[PlannedStep, ...]
    status: TurnStatus
    calibration: float
    prunes: bool = False
    """Before this turn the results of all earlier ones become stubs, where the layout has stubs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole conversation before anything of it was sent."""

    layout: Layout
    agent: Agent | None
    project: Project | None
    summaries: tuple[Summary, ...]
    system: str
    tools: tuple[ToolSpec, ...]
    budget: int
    effort: str | None
    turns: tuple[PlannedTurn, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: what it was made from, what came out, and the request before it on its line."""

    context: ContextInput
    assembled: Assembled
    before: Assembled | None

    @property
    def layout(self) -> Layout:
        """The layout it was assembled in."""
        return self.assembled.layout


@dataclass(frozen=True, slots=True)
class Grown:
    """A conversation with every request that was sent for it. `made_by` is the request that a step answers."""

    plan: Plan
    sent: tuple[Sent, ...] = field(repr=False)
    turns: tuple[Turn, ...] = field(repr=False)
    made_by: dict[str, Sent] = field(repr=False)

    def consecutive(self) -> Iterator[tuple[Sent, Sent]]:
        """The neighbours of every line: the requests to one model."""
        for name in dict.fromkeys(sent.context.model.name for sent in self.sent):
            yield from pairwise(sent for sent in self.sent if sent.context.model.name == name)


Infer = Callable[[Sent, PlannedStep], tuple[AnswerPart, ...]]


def as_planned(sent: Sent, planned: PlannedStep) -> tuple[AnswerPart, ...]:
    """A model that says what the plan says."""
    return planned.parts


def grow(plan: Plan, infer: Infer = as_planned) -> Grown:
    """Send every request of a plan as the engine does; a turn that does not fit the window ends there."""
    history: tuple[Turn, ...] = ()
    decisions: tuple[Decision, ...] = ()
    sent: list[Sent] = []
    lines: dict[str, Assembled] = {}
    made_by: dict[str, Sent] = {}
    for number, planned in enumerate(plan.turns):
        turn = Turn(f"turn_{number}", planned.user)
        decisions += _pruned(history, decisions) if planned.prunes else ()
        for index, step in enumerate(planned.steps):
            context = ContextInput(
                model=planned.model,
                budget=plan.budget,
                sampling=Sampling(8_000, plan.effort),
                system=plan.system,
                tools=plan.tools,
                history=history,
                turn=turn,
                reminder=step.reminder,
                decisions=decisions,
                calibration=planned.calibration,
                agent=plan.agent,
                project=plan.project,
                summaries=plan.summaries,
                searched=any(call.name in SEARCHES for step in turn.steps for call in step.calls),
            )
            before = lines.get(planned.model.name)
            try:
                assembled = assemble(context, plan.layout, before)
            except ContextLengthExceeded:
                break
            decisions += assembled.decisions
            lines[planned.model.name] = assembled
            sent.append(Sent(context, assembled, before))
            parts = infer(sent[-1], step)
            if not step.kept:
                break
            made = _made(f"step_{number}_{index}", sent[-1], step, parts)
            made_by[made.id] = sent[-1]
            turn = replace(turn, steps=(*turn.steps, made))
        history += (replace(turn, status=planned.status),)
    return Grown(plan, tuple(sent), history, made_by)


def _pruned(history: tuple[Turn, ...], decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """The boundary moves to the last step; named is the first step whose results become stubs by that."""
    steps = [step for turn in history for step in turn.steps]
    boundaries = [decision.outcome for decision in decisions if decision.kind is DecisionKind.PRUNE]
    start = [step.id for step in steps].index(boundaries[-1]) + 1 if boundaries else 0
    edited = [step.id for step in steps[start:] if step.calls]
    if not edited:
        return ()
    return (Decision(DecisionKind.PRUNE, "conv", steps[-1].id, "engine", "it pays", first_changed=edited[0]),)


def _made(id: str, sent: Sent, planned: PlannedStep, parts: tuple[AnswerPart, ...]) -> Step:
    calls = [part.id for part in parts if isinstance(part, ToolCall)]
    answered = {result.call_id for result in planned.results}
    stop = StopReason.TOOL_CALLS if calls else StopReason.END_TURN
    return Step(
        id=id,
        model=sent.context.model.name,
        parts=parts,
        stop_reason=stop if answered.issuperset(calls) else StopReason.INTERRUPTED,
        made_after=sent.assembled.report.durable,
        tokens=sum(COUNTER.count(str(part)) for part in parts),
        reminder=planned.reminder,
        results=planned.results,
    )


class _Ids:
    """Call ids that are all different and look alike."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, wanted: str) -> str:
        while wanted in self._taken:
            wanted += "_"
        self._taken.add(wanted)
        return wanted


texts = st.sampled_from(ODD_TEXTS) | st.text(max_size=40)
visible_texts = texts.filter(lambda text: bool(text.strip()))
reasonings = st.builds(
    Reasoning,
    texts,
    st.sampled_from((None, "sig-1", "sig-2")),
    st.sampled_from((None, None, None, "cmVk")),
)


@st.composite
def calls_and_results(draw: st.DrawFn, ids: _Ids, *, all_answered: bool) -> tuple[list[ToolCall], list[ToolResult]]:
    """Parallel calls, with the results that came."""
    calls = [
        ToolCall(ids.new(draw(st.sampled_from(CALL_IDS))), draw(st.sampled_from(TOOL_NAMES)), draw(arguments))
        for _ in range(draw(st.integers(1, 3)))
    ]
    results = [
        ToolResult(call.id, call.name, draw(texts), draw(st.booleans()))
        for call in calls
        if all_answered or draw(st.booleans())
    ]
    return calls, results


arguments = st.sampled_from(ARGUMENTS)


@st.composite
def planned_steps(draw: st.DrawFn, ids: _Ids, *, last: bool, status: TurnStatus) -> PlannedStep:
    """A step in the middle of a turn calls tools and gets every result; the last one ends as the turn does."""
    reminder = draw(st.sampled_from(REMINDERS))
    whole = status is TurnStatus.FINISHED
    if last and not whole and draw(st.booleans()):
        return PlannedStep((), (), reminder, kept=False)
    parts: list[AnswerPart] = draw(st.lists(reasonings, max_size=1))
    parts += [Text(text) for text in draw(st.lists(texts, max_size=1))]
    parts += draw(st.lists(reasonings, max_size=1)) if draw(st.booleans()) else []
    results: list[ToolResult] = []
    if not last or (not whole and draw(st.booleans())):
        calls, results = draw(calls_and_results(ids, all_answered=not last))
        parts += calls
    elif whole:
        parts.append(Text(draw(texts)))
    if not parts and not whole:
        return PlannedStep((), (), reminder, kept=False)
    return PlannedStep(tuple(parts), tuple(results), reminder)


FILES = {
    "file_a": ("notes.txt", 120, "A first note.\nA second note."),
    "file_b": ("bericht.pdf", 900, "Umsatz 2025: 14 Mio. €"),
    "file_c": ("archive.csv", 90_000, "a;b;c"),
    "file_d": ("scan.pdf", 0, None),
    "file_e": ("empty.md", 0, ""),
}


@st.composite
def user_messages(draw: st.DrawFn, number: int, first_document: int, dynamic: str = "") -> UserMessage:
    """What a user sends: words with or without files, from some time zone."""
    names = draw(st.lists(st.sampled_from(sorted(FILES)), max_size=3, unique=True)) if draw(st.booleans()) else []
    attachments = []
    for position, file_id in enumerate(names):
        title, tokens, text = FILES[file_id]
        reason = None if text is not None else "there is no text in it"
        document = first_document + position
        attachments.append(Attachment(file_id, document, title, "text/plain", 10, tokens, text, reason))
    text = draw(visible_texts)
    offset = timezone(timedelta(minutes=draw(st.sampled_from(OFFSETS))))
    return UserMessage(
        id=f"msg_{number}",
        text=text,
        sent_at=(NINE + timedelta(minutes=number * draw(st.integers(1, 30)))).astimezone(offset),
        timezone="Etc/Somewhere",
        tokens=COUNTER.count(text),
        attachments=tuple(attachments),
        dynamic=dynamic,
    )


statuses = st.sampled_from(
    (
        TurnStatus.FINISHED,
        TurnStatus.FINISHED,
        TurnStatus.FINISHED,
        TurnStatus.STOPPED,
        TurnStatus.FAILED,
        TurnStatus.INTERRUPTED,
    )
)


AGENTS = (
    Agent("agent_1", "Pirate", "Talk like a pirate."),
    Agent("agent_2", "Judge", "Weigh it up. " * 20, reminder="Be just.", replaces_system=True),
)
PROJECTS = (
    Project("proj_1", "Empty"),
    Project("proj_2", "Words", "Answer in one word."),
    Project("proj_3", "Small", "", (Attachment("plan", 1_001, "plan.md", "text/markdown", 10, 30, "The plan."),)),
    Project(
        "proj_4",
        "Large",
        "Read all.",
        (
            Attachment("plan", 1_001, "plan.md", "text/markdown", 10, 30, "The plan."),
            Attachment("scan", 1_002, "scan.pdf", "application/pdf", 10, 0, None, "it is encrypted"),
            Attachment("book", 1_003, "book.txt", "text/plain", 10, 40_000, "It was a dark night."),
        ),
    ),
)
SUMMARIES = (Summary("sum_1", "They spoke of ships.", 6), Summary("sum_2", "Then of harbours.", 5))
DYNAMICS = ("", "The user is Ann.", "The user is Ann.\n\nShe is an admin.")

layouts = st.just(LAMELLA) | st.sampled_from(tuple(LAYOUTS.values()))


@st.composite
def plans(
    draw: st.DrawFn,
    models: st.SearchStrategy[ModelFacts] | None = None,
    layouts: st.SearchStrategy[Layout] = layouts,
    max_turns: int = 5,
    max_steps: int = 4,
) -> Plan:
    """A conversation of one model, or of two that take turns; half of them have something beside the turns."""
    ids = _Ids()
    choice = models if models is not None else st.sampled_from(MODELS)
    pool = draw(st.lists(choice, min_size=1, max_size=2, unique=True))
    plain = draw(st.booleans())
    turns = []
    documents = 1
    for number in range(draw(st.integers(1, max_turns))):
        status = draw(statuses)
        user = draw(user_messages(number, documents, "" if plain else draw(st.sampled_from(DYNAMICS))))
        documents += len(user.attachments)
        count = draw(st.integers(1, max_steps))
        steps = tuple(draw(planned_steps(ids, last=i == count - 1, status=status)) for i in range(count))
        calibration = draw(st.sampled_from((0.5, 1.0, 1.4, 3.7)))
        prunes = not plain and draw(st.booleans())
        turns.append(PlannedTurn(draw(st.sampled_from(pool)), user, steps, status, calibration, prunes))
    return Plan(
        layout=draw(layouts),
        agent=None if plain else draw(st.none() | st.sampled_from(AGENTS)),
        project=None if plain else draw(st.none() | st.sampled_from(PROJECTS)),
        summaries=() if plain else draw(st.sampled_from(((), SUMMARIES[:1], SUMMARIES))),
        system=draw(st.sampled_from(("You are helpful.", "", "  \n", "Du bist hilfreich. 🙂" * 40))),
        tools=tuple(draw(st.lists(st.sampled_from(TOOLS), unique=True))),
        budget=draw(st.sampled_from((2_000, 20_000, 500_000))),
        effort=draw(st.sampled_from((None, "low", "high"))),
        turns=tuple(turns),
    )


def grown(
    models: st.SearchStrategy[ModelFacts] | None = None, layouts: st.SearchStrategy[Layout] = layouts
) -> st.SearchStrategy[Grown]:
    """Conversations with all their requests."""
    return plans(models, layouts).map(grow)


in_lamella = st.just(LAMELLA)


@st.composite
def raw_contexts(draw: st.DrawFn) -> ContextInput:
    """One request over rows that no engine of today has written: any parts in any order, any `made_after`.

    The running turn ends in calls or has no steps, as the last request of a loop does.
    """
    ids = _Ids()
    model, other = draw(st.lists(st.sampled_from(MODELS), min_size=2, max_size=2, unique=True))
    turns = []
    for number in range(draw(st.integers(1, 4))):
        steps = []
        for index in range(draw(st.integers(0, 3))):
            calls, results = draw(calls_and_results(ids, all_answered=False))
            anything = st.sampled_from(calls) | reasonings | st.builds(Text, texts)
            parts = draw(st.lists(anything, max_size=5, unique_by=lambda part: getattr(part, "id", id(part))))
            steps.append(
                Step(
                    id=f"step_{number}_{index}",
                    model=draw(st.sampled_from((model.name, other.name))),
                    parts=tuple(parts),
                    stop_reason=draw(st.sampled_from(StopReason)),
                    made_after=draw(st.sampled_from(("", "0" * 32))),
                    tokens=10,
                    reminder=draw(st.sampled_from(REMINDERS)),
                    results=tuple(draw(st.permutations(results))),
                )
            )
        turns.append(Turn(f"turn_{number}", draw(user_messages(number, 1 + 3 * number)), tuple(steps)))
    running = turns[-1]
    while running.steps and not running.steps[-1].calls:
        running = replace(running, steps=running.steps[:-1])
    return ContextInput(
        model=model,
        budget=500_000,
        sampling=Sampling(1_000),
        system="You are helpful.",
        tools=TOOLS,
        history=tuple(turns[:-1]),
        turn=running,
        reminder=draw(st.sampled_from(REMINDERS)),
    )
