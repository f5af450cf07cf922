"""What a seed chooses, and what a schedule leaves behind for the laws."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from lamella.commands.parse import TypedCommand
from lamella.core.records import Caller
from scheduling.model import Faults, Witness

ANN = Caller("user_ann")
CONVERSATION = "conv_1"
FILLER = "They spoke of ships and of harbours, of tides and of winds. " * 12
FIRST = 4
"""Turns that a conversation has before its schedule begins."""

PATIENCE = 40
"""How often a client tries again while an answer runs."""


@dataclass(slots=True)
class Edit:
    """Another text for a message that waits: the number in it, when it was asked for, and when it was answered."""

    number: int
    asked_at: int
    heard: str = "asked"
    heard_at: int = 0


@dataclass(slots=True)
class Sent:
    """A message of a client, and what it heard of it: `asked`, then `stored` or `refused`.

    `dropped` is what was heard of taking it out of the queue: `asked`, then `done`, or None again: too late.
    """

    name: str
    client: int
    key: str | None
    heard: str = "asked"
    turn_id: str | None = None
    edits: list[Edit] = field(default_factory=list)
    dropped: str | None = None


@dataclass(slots=True)
class Commanded:
    """A command of a client: None while nobody has answered, then the error or an empty string.

    `waits`: it went into the queue, whose row says what became of it.
    """

    typed: TypedCommand
    failed: str | None = None
    waits: bool = False


@dataclass(slots=True)
class Heard:
    """The numbers of a turn's packets that a follower got, in order, and the status with which the turn ended."""

    turn_id: str | None = None
    numbers: list[int] = field(default_factory=list)
    ended: str | None = None


FATES = {"kill": 4.0, "drain": 2.0, "still": 3.0}
"""What becomes of a replica: it dies, ends well, or nothing of it gets through for a while."""


STILL_AT = (
    "begin_turn",
    "answer begin_turn",
    "append_journal",
    "answer append_journal",
    "finish_turn",
    "answer finish_turn",
    "queue_message",
    "take",
    "answer take",
    "let_go",
    "add_notice",
    "next_session",
    "inherit",
    "answer inherit",
)
"""Where a process that stands still and is given up may do harm, when it goes on."""


@dataclass(frozen=True, slots=True)
class Fate:
    """It comes after so many operations. `seconds`: how long the replica is away, or stands still."""

    at: int
    kind: str
    replica: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed chose. `actions` are those of each client; `crash_at` counts operations; `restart` closes well.

    With several `replicas` each action goes to any of them; `fates` are those of replicas.
    """

    seed: int
    actions: tuple[tuple[str, ...], ...]
    crash_at: int | None = None
    restart: bool = False
    others: bool = False
    """Whether another process works on the same jobs, and processes stand still."""
    faults: Faults = field(default_factory=Faults)
    queued: bool = False
    """Whether clients send by the queue, and change what waits in it."""
    replicas: int = 1
    fates: tuple[Fate, ...] = ()
    named: bool = False
    """Whether a replica that starts again says whose place it takes."""
    wakes: bool = False
    """Whether a replica that stands still goes on as soon as another one has given it up."""
    still_at: str = ""
    """The first replica that comes to this operation stands still before it."""

    @classmethod
    def of_replicas(cls, seed: int, replicas: int = 2) -> Plan:
        """The plan of a seed for clients of several processes on one database."""
        random = Random(seed)
        plan = cls.of_queue(seed) if random.random() < 0.7 else cls.of(seed)
        fates = sorted(random.randrange(400) for _ in range(random.choice((0, 1, 1, 2, 2, 3))))
        return replace(
            plan,
            crash_at=None,
            restart=False,
            others=False,
            replicas=replicas,
            fates=tuple(_fate(random, at, replicas) for at in fates),
            named=random.random() < 0.5,
            wakes=random.random() < 0.5,
            still_at=random.choice(STILL_AT) if random.random() < 0.5 else "",
        )

    @classmethod
    def of(cls, seed: int) -> Plan:
        """The plan of a seed."""
        random = Random(seed)
        weights = {
            "message": 6,
            "/compact": 3,
            "/new": 2,
            "/resume": 3,
            "/prune": 1,
            "/abort": 1,
            "/status": 0.5,
            "stop": 1,
            "pause": 1,
        }
        clients = [
            tuple(random.choices(list(weights), list(weights.values()), k=random.randint(1, 4)))
            for _ in range(random.randint(1, 3))
        ]
        ends = random.random()
        return cls(
            seed=seed,
            actions=tuple(clients),
            crash_at=random.randrange(200) if ends < 0.5 else None,
            restart=0.5 <= ends < 0.6,
            others=random.random() < 0.2,
            faults=Faults(*random.choice(((0.0, 0.0), (0.0, 0.0), (0.15, 0.1))), random.choice((0.0, 0.5, 0.95))),
        )

    @classmethod
    def of_queue(cls, seed: int) -> Plan:
        """The plan of a seed for clients that send by the queue."""
        random = Random(seed)
        weights = {
            "message": 8,
            "edit": 3,
            "drop": 2,
            "flush": 1,
            "breath": 3,
            "/compact": 1.5,
            "/new": 1.5,
            "/resume": 1,
            "/prune": 1,
            "/abort": 1,
            "/status": 0.5,
            "stop": 1,
            "pause": 0.5,
        }
        clients = [
            tuple(random.choices(list(weights), list(weights.values()), k=random.randint(2, 7)))
            for _ in range(random.randint(1, 3))
        ]
        ends = random.random()
        return cls(
            seed=seed,
            actions=tuple(clients),
            crash_at=random.randrange(250) if ends < 0.5 else None,
            restart=0.5 <= ends < 0.65,
            queued=True,
        )


def _fate(random: Random, at: int, replicas: int) -> Fate:
    [kind] = random.choices(list(FATES), list(FATES.values()))
    return Fate(at, kind, random.randrange(replicas), random.choice((0.0, 1.0, 3.0, 8.0, 20.0)))


@dataclass(slots=True)
class Told:
    """What a schedule leaves behind for the laws."""

    plan: Plan
    witness: Witness
    sent: list[Sent] = field(default_factory=list)
    commanded: list[Commanded] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    crashes: int = 0
    broken: list[str] = field(default_factory=list)
    """Laws that only the running process can see."""
    ticks: int = 0

    def tick(self) -> int:
        """A number for each moment that clients tell apart."""
        self.ticks += 1
        return self.ticks
