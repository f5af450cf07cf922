"""How much of the evidence for a question search finds, next to plain BM25 in the same run, and how fast it is.

    python bench/recall.py FILE [--tune N]     a file in LoCoMo's format: sessions, turns, questions with evidence ids
    python bench/recall.py --speed 10000       search over so many messages, made up of words of our own
    python bench/recall.py --everywhere 200000 search over all conversations of an owner who has so many passages

Every turn of the file is a message of a conversation on a real store, every session one of ours; the index is filled
and asked through the same `Recall` as in the server. Found by turn: the share of a question's evidence among the
first 10 messages. By session: the share of the sessions with evidence among the first 5. `--tune N`: the rule's numbers
were chosen on the first N conversations; their figures and those of the others are shown apart.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lamella.app.embedding import embedder_of
from lamella.core.clock import SystemClock
from lamella.core.ids import RandomIds
from lamella.core.messages import Step, StopReason, Text, TurnStatus
from lamella.core.recall import RecallResult
from lamella.core.records import Caller, Conversation, NewRun, NewTurn, PageQuery, RunEnd, TurnEnd
from lamella.core.sessions import Session, SessionCause, SessionStep
from lamella.sessions.recall.recall import Recall
from lamella.settings import read_settings
from lamella.storage.recall.store import RecallIndex
from lamella.storage.store import Store, open_store
from many_passages import fill
from tables import arguments, emit, middle, milliseconds, show

OWNER = Caller("user_bench")
TURNS, SESSIONS = 10, 5
SPAN = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of the file."""

    id: str
    session: int
    speaker: str
    text: str
    at: datetime

    @property
    def shown(self) -> str:
        """The message, as a chat between two people shows it."""
        return f"{self.speaker}: {self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the turns that answer it."""

    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One conversation of the file."""

    id: str
    said: tuple[Said, ...]
    questions: tuple[Question, ...]


@dataclass
class Scores:
    """Sums over questions: the share that was found, and how often anything was."""

    turns: list[float] = field(default_factory=list)
    sessions: list[float] = field(default_factory=list)
    any_turn: list[float] = field(default_factory=list)
    any_session: list[float] = field(default_factory=list)

    def add(self, question: Question, turns: Sequence[str], sessions: Sequence[int]) -> None:
        """Score the answers to one question."""
        found = [one in turns for one in question.evidence]
        wanted = {session_of(one) for one in question.evidence}
        reached = [one in sessions for one in wanted]
        self.turns.append(sum(found) / len(found))
        self.sessions.append(sum(reached) / len(reached))
        self.any_turn.append(float(any(found)))
        self.any_session.append(float(any(reached)))

    def means(self) -> dict[str, float]:
        """The figures."""
        kinds = {"turns": self.turns, "sessions": self.sessions, "any_turn": self.any_turn}
        kinds["any_session"] = self.any_session
        return {name: sum(values) / len(values) for name, values in kinds.items()}


def session_of(evidence: str) -> int:
    """The session of an evidence id such as `D4:12`."""
    return int(evidence[1:].split(":")[0])


def samples_of(path: Path) -> Iterator[Sample]:
    """The conversations of a file."""
    for raw in json.loads(path.read_text("utf-8")):
        talk, said = raw["conversation"], []
        for number in sorted(int(name.split("_")[1]) for name in talk if re.fullmatch(r"session_\d+", name)):
            at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            said += [Said(t["dia_id"], number, t["speaker"], t["text"], at) for t in talk[f"session_{number}"]]
        asked = [Question(q["question"], tuple(SPAN.findall(" ".join(q.get("evidence", []))))) for q in raw["qa"]]
        yield Sample(raw["sample_id"], tuple(said), tuple(q for q in asked if q.evidence))


class PlainBM25:
    """Textbook BM25 over the texts of the turns, with k1 1.5 and b 0.75; a session is where its best turn is."""

    def __init__(self, said: Sequence[Said]) -> None:
        self._said = said
        self._texts = [Counter(re.findall(r"[a-z0-9]+", one.text.lower())) for one in said]
        self._lengths = [sum(text.values()) for text in self._texts]
        self._mean = sum(self._lengths) / len(said)
        self._holders: defaultdict[str, list[int]] = defaultdict(list)
        for index, text in enumerate(self._texts):
            for word in text:
                self._holders[word].append(index)

    def ask(self, query: str) -> tuple[list[str], list[int]]:
        """The best turns and sessions."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in re.findall(r"[a-z0-9]+", query.lower()):
            holders = self._holders.get(word, [])
            weight = math.log(1 + (len(self._said) - len(holders) + 0.5) / (len(holders) + 0.5))
            for index in holders:
                times = self._texts[index][word]
                pull = 1.5 * (1 - 0.75 + 0.75 * self._lengths[index] / self._mean)
                scores[index] += weight * times * 2.5 / (times + pull)
        order = sorted(scores, key=lambda index: -scores[index])
        sessions = dict.fromkeys(self._said[index].session for index in order)
        return [self._said[index].id for index in order[:TURNS]], list(sessions)[:SESSIONS]


async def store_sample(store: Store, sample: Sample, ids: RandomIds) -> tuple[str, Mapping[str, str]]:
    """Store a conversation as one of ours; gives its id, and the file's id of each message.

    What one speaker says is the user's message, what the other says before the next is the answer's steps.
    """
    conversation = ids.new("conv")
    at = sample.said[0].at
    await store.conversations.create_conversation(
        OWNER, Conversation(conversation, sample.id, "bench", "lamella", "planner", "", (), at, at)
    )
    names: dict[str, str] = {}
    asks = sample.said[0].speaker
    groups: list[list[Said]] = []
    for one in sample.said:
        if one.speaker == asks or not groups or groups[-1][0].session != one.session:
            groups.append([])
        groups[-1].append(one)
    session, head = 1, None
    for group in groups:
        if group[0].session != session:
            session = group[0].session
            await _next_session(store, conversation, head, group[0].at, ids)
        head = await _store_turn(store, conversation, group, asks, ids, names)
    return conversation, names


async def _next_session(store: Store, conversation: str, head: str | None, at: datetime, ids: RandomIds) -> None:
    current = (await store.conversations.conversation(OWNER, conversation)).session_id
    opened = Session(ids.new("sess"), conversation, 0, at, SessionCause.NEW, current, head)
    await store.sessions.next_session(OWNER, SessionStep(current, opened, "bench", at))


async def _store_turn(
    store: Store, conversation: str, group: Sequence[Said], asks: str, ids: RandomIds, names: dict[str, str]
) -> str:
    first, rest = (group[0], group[1:]) if group[0].speaker == asks else (None, group)
    at = group[0].at
    turn, message, run = ids.new("turn"), ids.new("msg"), NewRun(ids.new("run"), "bench")
    if first is not None:
        names[message] = first.id
    text = first.shown if first is not None else ""
    await store.turns.begin_turn(OWNER, NewTurn(turn, conversation, message, (run,), text, at, "UTC", 1), at)
    steps = []
    for one in rest:
        step = ids.new("step")
        names[step] = one.id
        steps.append(Step(step, "bench", (Text(one.shown),), StopReason.END_TURN, "", 1))
    await store.turns.finish_turn(
        OWNER, TurnEnd(turn, TurnStatus.FINISHED, [RunEnd(run.id, TurnStatus.FINISHED, steps, (), at)], at)
    )
    return turn


async def sessions_of(store: Store, found: RecallResult) -> list[int]:
    """The numbers of the sessions that were found."""
    return [(await store.sessions.session(OWNER, hit.session_id)).number for hit in found.sessions[:SESSIONS]]


async def measure(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """The figures of each conversation."""
    rows = []
    with TemporaryDirectory() as folder:
        clock = SystemClock()
        ids = RandomIds(clock)
        async with await open_store(Path(folder) / "bench.db", ids) as store:
            recall = Recall(store, RecallIndex(store.database), embedder_of(read_settings()), store.jobs, clock)
            for sample in samples:
                conversation, names = await store_sample(store, sample, ids)
                await recall.index_now(OWNER, conversation)
                ours, plain, textbook = Scores(), Scores(), PlainBM25(sample.said)
                for question in sample.questions:
                    found = await recall.search(OWNER, question.text, conversation, 3 * TURNS)
                    turns = list(dict.fromkeys(names[hit.source.id] for hit in found.hits))[:TURNS]
                    ours.add(question, turns, await sessions_of(store, found))
                    plain.add(question, *textbook.ask(question.text))
                row = {"sample": sample.id, "questions": len(sample.questions), "embedder": recall.embedder}
                rows.append({**row, "lamella": ours, "bm25": plain})
            await recall.close()
    return rows


def merged(rows: Sequence[Mapping[str, Any]], of: str) -> Scores:
    """The scores of several conversations as one."""
    whole = Scores()
    for row in rows:
        one: Scores = row[of]
        whole = Scores(
            whole.turns + one.turns,
            whole.sessions + one.sessions,
            whole.any_turn + one.any_turn,
            whole.any_session + one.any_session,
        )
    return whole


def report(rows: Sequence[Mapping[str, Any]], tuned: int, *, as_json: bool) -> None:
    """Print the figures."""
    parts = {"all": rows}
    if 0 < tuned < len(rows):
        parts |= {f"first {tuned} (tuned on)": rows[:tuned], f"other {len(rows) - tuned}": rows[tuned:]}
    figures = {name: {of: merged(part, of).means() for of in ("bm25", "lamella")} for name, part in parts.items()}
    if as_json:
        emit({"embedder": rows[0]["embedder"], **figures})
        return
    head = ["conversations", "search", f"by turn at {TURNS}", f"by session at {SESSIONS}", "any turn", "any session"]
    lines = [head]
    for name, both in figures.items():
        for of, means in both.items():
            lines.append([name, of, *(f"{means[key]:.3f}" for key in ("turns", "sessions", "any_turn", "any_session"))])
    show(lines)
    print(f"\n{sum(row['questions'] for row in rows)} questions; embedder {rows[0]['embedder']}")


async def speed(count: int) -> dict[str, float]:
    """Seconds of a search over `count` messages: the first one, which reads the vectors, and later ones."""
    chance = random.Random(1)
    words = [f"{chance.choice('bdfgklmnprst')}{chance.choice('aeiou')}{number}" for number in range(20_000)]
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def text() -> str:
        return " ".join(words[min(int(chance.paretovariate(0.8)), len(words) - 1)] for _ in range(40))

    said = tuple(Said(f"D1:{n}", 1, "ab"[n % 2], text(), at + timedelta(minutes=n)) for n in range(count))
    with TemporaryDirectory() as folder:
        clock = SystemClock()
        ids = RandomIds(clock)
        async with await open_store(Path(folder) / "bench.db", ids) as store:
            recall = Recall(store, RecallIndex(store.database), embedder_of(read_settings()), store.jobs, clock)
            conversation, _ = await store_sample(store, Sample("speed", said, ()), ids)
            began = time.perf_counter()
            await recall.index_now(OWNER, conversation)
            times = [time.perf_counter() - began]
            for _ in range(21):
                query = " ".join(chance.sample(words[:400], 8))
                began = time.perf_counter()
                await recall.search(OWNER, query, conversation)
                times.append(time.perf_counter() - began)
            await recall.close()
    return {"messages": count, "indexed": times[0], "first": times[1], "later": middle(times[2:])}


QUESTIONS = (
    "How does an iterator end?",
    "the difference between a module and a package",
    "metaclass",
    "what happens when a coroutine is cancelled",
    "augmented assignment of a tuple item",
)


async def everywhere(count: int, folder: Path) -> dict[str, float]:
    """Seconds of searches over all conversations with `count` passages, the first in a process that has read nothing,
    and the longest that another reader of the database waited meanwhile. A folder that is filled is used again."""
    clock = SystemClock()
    ids = RandomIds(clock)
    async with await open_store(folder / "bench.db", ids) as store:
        embedder = embedder_of(read_settings())
        if not (await store.conversations.conversations(OWNER, PageQuery(1))).data:
            await fill(store, OWNER, embedder, ids, count)
        newest = (await store.conversations.conversations(OWNER, PageQuery(1))).data[0].id
        recall = Recall(store, RecallIndex(store.database), embedder, store.jobs, clock)
        waits: list[float] = []
        looking = asyncio.create_task(_look(store, newest, waits))
        times = []
        for question in (QUESTIONS[0], *QUESTIONS):
            began, used = time.perf_counter(), time.process_time()
            found = await recall.search(OWNER, question)
            times.append(time.perf_counter() - began)
            assert found.hits, question
            if len(times) == 1:
                first_cpu, longest = time.process_time() - used, max(waits, default=0.0)
        looking.cancel()
        await recall.close()
    later = {"later": middle(times[1:]), "wait": longest}
    return {"passages": count, "first": times[0], "first_cpu": first_cpu, **later}


async def _look(store: Store, conversation: str, waits: list[float]) -> None:
    """Read something small again and again, and note how long that takes."""
    while True:
        began = time.perf_counter()
        await store.conversations.conversation(OWNER, conversation)
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(0.02)


def show_everywhere(found: dict[str, float], *, as_json: bool) -> None:
    """Print what `everywhere` measured."""
    if as_json:
        emit(found)
        return
    times = [f"{found['first']:.2f} s", f"{found['first_cpu']:.2f} s"]
    times += [milliseconds(found["later"]), milliseconds(found["wait"])]
    show(
        [
            ["passages", "first search", "its CPU", "later ones (median)", "longest wait"],
            [str(found["passages"]), *times],
        ]
    )


def main() -> None:
    """Measure and print."""
    parser = arguments((__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, help="a file in LoCoMo's format")
    parser.add_argument("--tune", type=int, default=0, help="how many conversations the rule was tuned on")
    parser.add_argument("--speed", type=int, help="search over so many messages")
    parser.add_argument("--everywhere", type=int, help="search over all conversations with so many passages")
    parser.add_argument("--folder", type=Path, help="where --everywhere keeps its database, to use it again")
    given = parser.parse_args()
    if given.everywhere:
        with TemporaryDirectory() as folder:
            found = asyncio.run(everywhere(given.everywhere, given.folder or Path(folder)))
        show_everywhere(found, as_json=given.json)
        return
    if given.speed:
        found = asyncio.run(speed(given.speed))
        if given.json:
            emit(found)
        else:
            shown = [milliseconds(found["first"]), milliseconds(found["later"]), f"{found['indexed']:.1f} s"]
            show([["messages", "first search", "later ones (median)", "indexed in"], [str(given.speed), *shown]])
        return
    if given.file is None:
        sys.exit("Name a file in LoCoMo's format, or --speed N.")
    report(asyncio.run(measure(list(samples_of(given.file)))), given.tune, as_json=given.json)


if __name__ == "__main__":
    main()
