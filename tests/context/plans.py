"""Conversations for the laws, planned by Hypothesis: what users do and models say, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta, timezone
from typing import TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.agents import Agent, Project, Summary
from lamella.core.counting import count_tokens
from lamella.core.json import digest
from lamella.core.messages import (
    AnswerPart,
    Attachment,
    Image,
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
from lamella.core.models import ModelFacts, WireProtocol
from lamella.core.prompt import Sampling, ToolSpec
from lamella.llm.model_table import ModelTable

from .wires import NOW

laws = settings(
    max_examples=settings().max_examples * 2 // 5,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""How the laws are tested: the same examples in every run, 40 of each and half of them without the long suites."""

TABLE = ModelTable.shipped()
BINDING = TABLE.facts("claude-opus-5-5", "anthropic")
LOOSE = TABLE.facts("claude-opus-5", "anthropic")
SONNET = TABLE.facts("claude-sonnet-5-5", "anthropic")
OLD = TABLE.facts("claude-haiku-4-5", "anthropic")
BLIND = TABLE.facts("lamella-demo", "anthropic")
"""A model without vision."""
GPT = TABLE.facts("gpt-6.1-sol", "openai")
CHAT = replace(GPT, protocol=WireProtocol.CHAT)
LEGACY = replace(TABLE.facts("gpt-5.4", "openai"), protocol=WireProtocol.CHAT)
MODELS = (BINDING, SONNET, LOOSE, OLD, BLIND, GPT, CHAT, LEGACY)

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
    "<conversation-summary>\nThey agreed.\n</conversation-summary>",
    "[Sent: Sunday 2026-03-01 09:00 +00:00, UTC]",
    "a" * 300,
)
CALL_IDS = ("call_1", "call:1", "call 1", "CALL_1", "call_1_", "functions.search:0", "1", "Aufruf-Ä", "x" * 70)
SEARCHES = ("search", "read_file")
TOOL_NAMES = ("search", "read_file", "functions.search", "web/suche ä", "n" * 90)
TWICE = '"{\\"query\\":\\"red\\"}"'
"""Arguments that a model encoded twice: a string that holds an object."""
ARGUMENTS = ("{}", TWICE, '{"query":"red"}', '{"z":1,"a":{"y":[1.5,null,true],"b":"ü\\n"}}', '{"b": 2, "a": 1}')
QUERIES: tuple[tuple[str, ...], ...] = ((), (), ("red", "rouge"), ("红色",))
DIGESTS = ("", "", "It was red.")
OFFSETS = (0, 60, -210, 345, -720, 840)


def long_text(tokens: int) -> str:
    """A text of about so many local tokens, no two of its lines alike."""
    return "".join(f"{number} goes on\n" for number in range(tokens // 4))


LARGE = tuple(long_text(tokens) for tokens in (900, 6_000, 30_000))
"""Results around and above the smaller budgets."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """What a model says to one request. `kept` False: the request fails and leaves nothing."""

    parts: tuple[AnswerPart, ...]
    results: tuple[ToolResult, ...]
    reminder: str
    kept: bool = True


@dataclass(frozen=True, slots=True)
class PlannedTurn:
    """A user message and what follows it. `tools` come in no particular order."""

    model: ModelFacts
    user: UserMessage
    steps: tuple[PlannedStep, ...]
    status: TurnStatus
    calibration: float
    tools: tuple[ToolSpec, ...]
    agent: Agent | None = None
    project: Project | None = None
    prunes: bool = False
    """Before this turn the results of all earlier ones become stubs, where the layout has stubs."""
    limited: bool = False
    """Its last step is the last that is permitted."""

    @property
    def allowed(self) -> tuple[ToolSpec, ...]:
        """The tools that the agent may use."""
        agent = self.agent
        if agent is None or agent.tools is None:
            return self.tools
        return tuple(tool for tool in self.tools if tool.name in agent.tools)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole conversation before anything of it was sent."""

    layout: Layout
    summaries: tuple[Summary, ...]
    system: str
    budget: int
    effort: str
    can_compact: bool
    turns: tuple[PlannedTurn, ...]


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
arguments = st.sampled_from(ARGUMENTS)
answers = texts | st.just(LARGE[0])


@st.composite
def calls_and_results(
    draw: st.DrawFn, ids: _Ids, *, all_answered: bool, contents: st.SearchStrategy[str] = texts
) -> tuple[list[ToolCall], list[ToolResult]]:
    """Parallel calls, with the results that came."""
    calls = [
        ToolCall(ids.new(draw(st.sampled_from(CALL_IDS))), draw(st.sampled_from(TOOL_NAMES)), draw(arguments))
        for _ in range(draw(st.integers(1, 3)))
    ]
    results = [
        ToolResult(
            call.id,
            call.name,
            draw(contents),
            draw(st.booleans()),
            draw(st.sampled_from(QUERIES)),
            draw(st.sampled_from(DIGESTS)),
        )
        for call in calls
        if all_answered or draw(st.booleans())
    ]
    return calls, results


@st.composite
def planned_steps(
    draw: st.DrawFn, ids: _Ids, contents: st.SearchStrategy[str], *, last: bool, status: TurnStatus
) -> PlannedStep:
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
        calls, results = draw(calls_and_results(ids, all_answered=not last, contents=contents))
        parts += calls
    elif whole:
        parts.append(Text(draw(answers)))
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


def picture(file_id: str, width: int, height: int) -> Image:
    """A picture of this size, as far as anybody looks who does not draw it."""
    size = width.to_bytes(4) + height.to_bytes(4)
    data = b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4) + b"IHDR" + size + b"\x08\x02\x00\x00\x00" + bytes(4)
    return Image(file_id, "image/png", width, height, digest(data), data)


PICTURES = tuple(
    Attachment(image.file_id, 0, f"{image.file_id}.png", "image/png", 33, 0, None, image=image)
    for image in (picture("dot", 1, 1), picture("photo", 640, 480), picture("poster", 1_200, 2_000))
)


@st.composite
def user_messages(draw: st.DrawFn, number: int, first_document: int, dynamic: str = "") -> UserMessage:
    """What a user sends: words with or without files and pictures, from some time zone."""
    attached = []
    if draw(st.booleans()):
        for file_id in draw(st.lists(st.sampled_from(sorted(FILES)), max_size=3, unique=True)):
            title, tokens, text = FILES[file_id]
            reason = None if text is not None else "there is no text in it"
            attached.append(Attachment(file_id, 0, title, "text/plain", 10, tokens, text, reason))
        attached += draw(st.lists(st.sampled_from(PICTURES), max_size=2, unique=True))
    text = draw(visible_texts | st.just(LARGE[0]))
    offset = timezone(timedelta(minutes=draw(st.sampled_from(OFFSETS))))
    return UserMessage(
        id=f"msg_{number}",
        text=text,
        sent_at=(NOW + timedelta(minutes=number * draw(st.integers(1, 30)))).astimezone(offset),
        timezone="Etc/Somewhere",
        tokens=count_tokens(text),
        attachments=tuple(replace(a, document=first_document + place) for place, a in enumerate(attached)),
        dynamic=dynamic,
    )


statuses = st.sampled_from((*[TurnStatus.FINISHED] * 3, TurnStatus.STOPPED, TurnStatus.FAILED, TurnStatus.INTERRUPTED))

AGENTS = (
    Agent("agent_1", "Pirate", "Talk like a pirate."),
    Agent("agent_1", "Pirate", "Talk like an old pirate.", "Say “arr”.", revision=2),
    Agent("agent_2", "Judge", "Weigh it up. " * 20, reminder="Be just.", replaces_system=True),
    Agent("agent_3", "Reader", "Read, then answer.", tools=("read_file",)),
    Agent("agent_4", "Blank", " "),
)
PLAN = Attachment("plan", 1_001, "plan.md", "text/markdown", 10, 30, "The plan.")
SCAN = Attachment("scan", 1_002, "scan.pdf", "application/pdf", 10, 0, None, "it is encrypted")
BOOK = Attachment("book", 1_003, "book.txt", "text/plain", 10, 40_000, "It was a dark night.")
STORY = Attachment("story", 1_004, "story.txt", "text/plain", 10, 1_200, "Once upon a time.")
RED, BLUE = (
    Attachment(image.file_id, number, f"{image.file_id}.png", "image/png", 33, 0, None, image=image)
    for number, image in ((1_005, picture("red", 400, 300)), (1_006, picture("blue", 1_900, 1_900)))
)
PROJECTS = (
    Project("proj_1", "Empty"),
    Project("proj_2", "Words", "Answer in one word."),
    Project("proj_3", "Small", "", (PLAN,)),
    Project("proj_3", "Small", "Follow the plan.", (PLAN, STORY), revision=2),
    Project("proj_4", "Large", "Read all.", (PLAN, SCAN, BOOK)),
    Project("proj_4", "Large", "Read all.", (BOOK,), revision=2),
    Project("proj_5", "Colours", "", (RED, BLUE)),
    Project("proj_5", "Colours", "Compare them.", (PLAN, RED, BLUE, BOOK), revision=2),
)
SUMMARIES = (Summary("sum_1", "They spoke of ships.", 6), Summary("sum_2", "Then of harbours.", 5))
DYNAMICS = ("", "The user is Ann.", "The user is Ann.\n\nShe is an admin.")

LATE = LAMELLA.late
assert LATE is not None
layouts = st.sampled_from((LAMELLA, LATE, *LAYOUTS.values()))
Chosen = TypeVar("Chosen", Agent, Project)


@st.composite
def comings(draw: st.DrawFn, choices: Sequence[Chosen], turns: int) -> list[Chosen | None]:
    """For each turn which of the choices is there: mostly the one of the turn before."""
    found: list[Chosen | None] = []
    one: st.SearchStrategy[Chosen | None] = st.sampled_from((*choices, None))
    for number in range(turns):
        changes = number == 0 or draw(st.integers(0, 3)) == 0
        found.append(draw(one) if changes else found[-1])
    return found


@st.composite
def plans(
    draw: st.DrawFn,
    models: st.SearchStrategy[ModelFacts] | None = None,
    layouts: st.SearchStrategy[Layout] = layouts,
    max_turns: int = 5,
    max_steps: int = 4,
    contents: st.SearchStrategy[str] | None = None,
) -> Plan:
    """A conversation of one to three models that take turns; half of them have something beside the turns."""
    ids = _Ids()
    choice = models if models is not None else st.sampled_from(MODELS)
    results = contents if contents is not None else texts | st.sampled_from(LARGE)
    pool = draw(st.lists(choice, min_size=1, max_size=3, unique=True))
    plain, count = draw(st.booleans()), draw(st.integers(1, max_turns))
    agents = [None] * count if plain else draw(comings(AGENTS, count))
    projects = [None] * count if plain else draw(comings(PROJECTS, count))
    tools = draw(st.lists(st.sampled_from(TOOLS), unique=True))
    turns = []
    documents = 1
    for number in range(count):
        status = draw(statuses)
        user = draw(user_messages(number, documents, "" if plain else draw(st.sampled_from(DYNAMICS))))
        documents += len(user.attachments)
        length = draw(st.integers(1, max_steps))
        planned = [draw(planned_steps(ids, results, last=i == length - 1, status=status)) for i in range(length)]
        turns.append(
            PlannedTurn(
                model=draw(st.sampled_from(pool)),
                user=user,
                steps=tuple(planned),
                status=status,
                calibration=draw(st.sampled_from((0.5, 1.0, 1.4, 3.7))),
                tools=tuple(draw(st.permutations(tools))) if len(tools) > 1 else tuple(tools),
                agent=agents[number],
                project=projects[number],
                prunes=not plain and draw(st.booleans()),
                limited=draw(st.booleans()),
            )
        )
    return Plan(
        layout=draw(layouts),
        summaries=() if plain else draw(st.sampled_from(((), SUMMARIES[:1], SUMMARIES))),
        system=draw(st.sampled_from(("You are helpful.", "", "  \n", "Du bist hilfreich. 🙂" * 40))),
        budget=draw(st.sampled_from((2_000, 4_000, 8_000, 20_000, 500_000))),
        effort=draw(st.sampled_from(("off", "low", "high"))),
        can_compact=draw(st.booleans()),
        turns=tuple(turns),
    )


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
        turns.append(Turn(f"turn_{number}", draw(user_messages(number, 1 + 5 * number)), tuple(steps)))
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
