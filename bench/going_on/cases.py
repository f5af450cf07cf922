"""The cases of the law: which conversation, from where, with which model; and what it is to go on."""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamella.app.accounts import LOCAL_IDENTITY
from lamella.app.app import LOCAL_OWNER, App, open_app
from lamella.app.conversations import NewConversation
from lamella.chat.message import Message
from lamella.core.errors import LamellaError
from lamella.core.json import JsonObject, decode_object
from lamella.core.records import UNCHANGED, ConversationChange
from lamella.core.sessions import Session, SessionCause
from lamella.settings import read_settings

from .provider import OUTPUT, Manners, Picky, Pile, Providers, text_of

KEPT: dict[str, Any] = {"compaction_when": "full", "compaction_threshold": "100%", "keep_recent_tokens": 1_000}
REFUSALS = (
    "",
    "prompt is too long: {size} tokens > {less} maximum",
    "Your input exceeds the context window of this model.",
    "the request exceeds the available context size ({less} tokens)",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a stored conversation, the turn that is gone on from (None: the newest), and the model's manners."""

    seed: int
    conversation: int
    turn: float | None
    manners: Manners


@dataclass(frozen=True, slots=True)
class Broken:
    """A case in which the law did not hold, and how."""

    case: Case
    why: str


@dataclass(slots=True)
class Tally:
    """What came of the cases."""

    cases: int = 0
    compacted: int = 0
    left_out: int = 0
    refused: int = 0
    summaries: int = 0


@dataclass(frozen=True, slots=True)
class Story:
    """A conversation to store: its turns, characters of each message, kinds of text, and whether it was compacted
    halfway. A turn may call a tool some times before it answers, and may bring a file, each of so many characters."""

    turns: int
    size: int
    kinds: Sequence[str]
    compacted: bool = False
    calls: int = 0
    result: int = 0
    file: int = 0


STORIES = (
    Story(3, 40, ("english",)),
    Story(5, 3_000, ("english", "json")),
    Story(4, 6_000, ("chinese",)),
    Story(60, 12, ("english", "russian")),
    Story(6, 2_500, ("capitals", "log")),
    Story(2, 40_000, ("english",)),
    Story(5, 4_000, ("hindi", "chinese")),
    Story(12, 1_500, ("log", "json", "english"), compacted=True),
    Story(1, 90_000, ("log",)),
    Story(8, 2_000, ("russian", "capitals"), compacted=True),
    Story(4, 200, ("english",), calls=3, result=5_000),
    Story(2, 100, ("chinese",), calls=12, result=9_000),
    Story(3, 300, ("english", "hindi"), file=30_000),
    Story(6, 400, ("log", "english"), compacted=True, calls=2, result=4_000, file=2_000),
)


async def store_stories(folder: Path) -> list[str]:
    """Store every story with the generous model; the ids of the conversations."""
    ids = []
    models = Providers()
    async with opened(folder, models) as app:
        for story in STORIES:
            conversation = (await app.conversations.create(LOCAL_OWNER, NewConversation())).id
            for number in range(story.turns):
                models.generous.calls = story.calls
                kind = story.kinds[number % len(story.kinds)]
                models.generous.arguments = f'{{"kind":"{kind}","size":{story.result}}}'
                files = [await _uploaded(app, f"{number}.txt", text_of(kind, story.file))] if story.file else []
                asked = f"{number}. {text_of(kind, story.size)}"
                await _answered(app, conversation, asked, "generous", files=files)
                if story.compacted and number == story.turns // 2:
                    await app.sessions.compact(LOCAL_OWNER, conversation, who="user", why="asked for")
            ids.append(conversation)
    return ids


def opened(folder: Path, models: Providers) -> AbstractAsyncContextManager[App]:
    """The app over a data folder, with the tool of the stories."""
    return open_app(read_settings(data=folder, **KEPT), models=models, more_tools=(Pile(),))


async def _uploaded(app: App, name: str, text: str) -> str:
    """The id of a file of the local user's."""

    async def pieces() -> AsyncIterator[bytes]:
        yield text.encode()

    return (await app.intake.receive(LOCAL_OWNER, name, pieces(), None)).id


async def _answered(
    app: App, conversation: str, text: str, model: str, parent: str | None = None, files: Sequence[str] = ()
) -> Sequence[JsonObject]:
    """The packets of an answer to a message after `parent`, None for the newest turn."""
    message = Message(text, tuple(files), models=(model,), parent_message_id=UNCHANGED if parent is None else parent)
    turn = await app.chat.sender.begin(LOCAL_OWNER, conversation, message)
    packets = [decode_object(packet) async for batch in app.chat.stream(LOCAL_OWNER, turn) for _, packet in batch]
    await app.chat.rest(conversation)
    return packets


def cases(first: int, count: int, fixed: int) -> Iterator[Case]:
    """So many cases; `fixed` are the local tokens of the smallest window."""
    for seed in range(first, first + count):
        chance = random.Random(seed)
        error = chance.choice((1.0, 1.0, chance.uniform(0.4, 2.5), 2.5, 0.4))
        holds = fixed * error * chance.choice((1.05, 1.3, 2.0, 4.0, 12.0, 40.0)) + 900 * error
        yield Case(
            seed,
            chance.randrange(len(STORIES)),
            None if chance.random() < 0.6 else chance.random(),
            Manners(
                int(holds) + OUTPUT,
                error,
                counts=chance.random() < 0.5,
                refuses=chance.choice(REFUSALS),
                summaries=chance.choice(("good", "good", "good", "down", "empty", "endless", "refused")),
            ),
        )


async def run(template: Path, ids: Sequence[str], some: Sequence[Case], tally: Tally, work: Path) -> list[Broken]:
    """Cases of different conversations, each in its own of a copy of the stored ones; those that broke the law."""
    shutil.copytree(template, work)
    broken = []
    models = Providers()
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(opened(work, models))
        for case in some:
            model = models.make(f"case-{case.seed}", case.manners)
            why = await _judged(app, ids[case.conversation], case, model, tally)
            if why:
                broken.append(Broken(case, why))
    shutil.rmtree(work)
    return broken


async def _judged(app: App, conversation: str, case: Case, model: Picky, tally: Tally) -> str:
    """How the law was broken; "" where it held."""
    before = await app.store.sessions.sessions(LOCAL_OWNER, conversation)
    path = await app.store.turns.path(LOCAL_OWNER, conversation)
    parent = path[int(case.turn * len(path))].user.id if case.turn is not None else None
    change = ConversationChange(model=model.facts.name)
    await app.store.conversations.change_conversation(LOCAL_OWNER, conversation, change, app.clock.now())
    try:
        packets = await _answered(app, conversation, "hi", model.facts.name, parent)
    except LamellaError as error:
        return f"{type(error).__name__}: {error.message}"
    after = await app.store.sessions.sessions(LOCAL_OWNER, conversation)
    compactions = _compactions(after) - _compactions(before)
    tally.cases += 1
    tally.compacted += compactions > 0
    tally.refused += model.refused > 0
    tally.summaries += model.summaries
    tally.left_out += any("left out of it" in str(packet.get("why")) for packet in packets)
    last = packets[-1]
    if last.get("status") != "finished":
        errors = [packet.get("error") for packet in packets if packet.get("type") == "error"]
        return f"the turn ended as {last.get('status')}: {errors}"
    return f"{compactions} compactions" if compactions > 1 else ""


def _compactions(sessions: Sequence[Session]) -> int:
    return sum(session.opened_by is SessionCause.COMPACTION for session in sessions)


async def judged(folder: Path, some: Sequence[Case]) -> tuple[list[Broken], Tally]:
    """All of these cases; what broke the law, and what came of them."""
    template, tally = folder / "stories", Tally()
    ids = await store_stories(template)
    rounds: list[list[Case]] = []
    for case in some:
        free = next((one for one in rounds if all(case.conversation != other.conversation for other in one)), None)
        if free is None:
            rounds.append([case])
        else:
            free.append(case)
    broken = []
    for number, one in enumerate(rounds):
        broken += await run(template, ids, one, tally, folder / f"round{number}")
    return broken, tally


async def smallest_window(folder: Path) -> int:
    """The local tokens of a window with nothing but what stands in each, and "hi"."""
    async with opened(folder, Providers()) as app:
        conversation = (await app.conversations.create(LOCAL_OWNER, NewConversation())).id
        return (await app.chat.sender.preview(LOCAL_IDENTITY, conversation, Message("hi"))).record.local_tokens
