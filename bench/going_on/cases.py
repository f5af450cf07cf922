"""The cases of the law: which conversation, from where, with which model; and what it is to go on."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamella.app.app import LOCAL_OWNER, App, open_app
from lamella.app.conversations import NewConversation
from lamella.chat.message import Message
from lamella.core.errors import LamellaError
from lamella.core.json import JsonObject, decode_object
from lamella.core.records import LEAVE, ConversationChange
from lamella.core.sessions import Session, SessionCause
from lamella.settings import read_settings

from .provider import OUTPUT, Manners, Picky, Providers

PIECES = {
    "english": "The harbour master wrote down every ship that came in, its cargo, its crew and its port of call. ",
    "chinese": "昨天下午，城市图书馆公布了新的开放时间：周末也从上午九点开到晚上八点，读者可以在网上预订座位。",
    "capitals": "WARNING CONTAINER QZXW EXCEEDS LIMIT KJHGF AND WAS MOVED TO STORAGE AREA NORTH. ",
    "hindi": "कल दोपहर शहर के पुस्तकालय ने नए समय की घोषणा की और सप्ताहांत में भी खुला रहेगा। ",
    "log": "2026-11-02T10:11:12.345Z host-17 req=9f31c2ab status=503 ms=2231 /api/v2/items/88213?x=a%20b\n",
    "json": '{"id": "b7e1-44f0", "values": [12.25, 88.1, -3], "ok": true, "path": "/srv/data/x_17.bin"}, ',
    "russian": "Вчера днём городская библиотека объявила о новых часах работы: и в выходные она открыта. ",
}
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


STORIES: tuple[tuple[int, int, Sequence[str], bool], ...] = (
    (3, 40, ("english",), False),
    (5, 3_000, ("english", "json"), False),
    (4, 6_000, ("chinese",), False),
    (60, 12, ("english", "russian"), False),
    (6, 2_500, ("capitals", "log"), False),
    (2, 40_000, ("english",), False),
    (5, 4_000, ("hindi", "chinese"), False),
    (12, 1_500, ("log", "json", "english"), True),
    (1, 90_000, ("log",), False),
    (8, 2_000, ("russian", "capitals"), True),
)
"""Turns, characters of a message and of an answer, kinds of text, and whether it was compacted in the middle."""


async def store_stories(folder: Path) -> list[str]:
    """Store every story with the generous model; the ids of the conversations."""
    ids = []
    models = Providers()
    async with open_app(read_settings(data=folder, **KEPT), models=models) as app:
        for turns, size, kinds, compacted in STORIES:
            conversation = (await app.conversations.create(LOCAL_OWNER, NewConversation())).id
            for number in range(turns):
                text = PIECES[kinds[number % len(kinds)]]
                asked = f"{number}. " + (text * (size // len(text) + 1))[:size]
                await _answered(app, conversation, asked, "generous")
                if compacted and number == turns // 2:
                    await app.sessions.compact(LOCAL_OWNER, conversation, who="user", why="asked for")
            ids.append(conversation)
    return ids


async def _answered(
    app: App, conversation: str, text: str, model: str, parent: str | None = None
) -> Sequence[JsonObject]:
    """The packets of an answer to a message after `parent`, None for the newest turn."""
    message = Message(text, models=(model,), parent_message_id=LEAVE if parent is None else parent)
    turn = await app.chat.send(LOCAL_OWNER, conversation, message)
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
        app = await stack.enter_async_context(open_app(read_settings(data=work, **KEPT), models=models))
        for case in some:
            model = models.make(f"case-{case.seed}", case.manners)
            why = await _judged(app, ids[case.conversation], case, model, tally)
            if why:
                broken.append(Broken(case, why))
    shutil.rmtree(work)
    return broken


async def _judged(app: App, conversation: str, case: Case, model: Picky, tally: Tally) -> str:
    """How the law was broken; "" where it held."""
    before = await app.store.sessions(LOCAL_OWNER, conversation)
    path = await app.store.path(LOCAL_OWNER, conversation)
    parent = path[int(case.turn * len(path))].user.id if case.turn is not None else None
    change = ConversationChange(model=model.facts.name)
    await app.store.change_conversation(LOCAL_OWNER, conversation, change, app.clock.now())
    try:
        packets = await _answered(app, conversation, "hi", model.facts.name, parent)
    except LamellaError as error:
        return f"{type(error).__name__}: {error.message}"
    after = await app.store.sessions(LOCAL_OWNER, conversation)
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
    async with open_app(read_settings(data=folder, **KEPT), models=Providers()) as app:
        conversation = (await app.conversations.create(LOCAL_OWNER, NewConversation())).id
        return (await app.chat.preview(LOCAL_OWNER, conversation, Message("hi"))).record.local_tokens
