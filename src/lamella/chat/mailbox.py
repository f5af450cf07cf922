"""One conversation's mailbox: who speaks, and what waits.

                    rows: held for moments                  floor: held as long as somebody speaks
                    ──────────────────────                  ──────────────────────────────────────
    submit ──▶ free, and nothing waits? ── yes ───────────▶ begin ──▶ the turn's task lets go, when all is saved
                    │ no                                      ▲
                    ▼                                         │ takes the rows: what is begun is changed no more
               a row of the queue ──▶ keeper: due? free? ─────┘ (a command of the queue runs here too)
                    ▲
    change, drop, flush

`rows` is held by whoever decides where a message goes, changes what waits, or takes it; nothing slow is awaited under
it. `floor` is held from before a turn begins to after it is saved and followed up, and while a command runs that
touches the context. The keeper is a task that lives while rows wait, and takes first the floor, then the rows. Whoever
holds the rows takes the floor only when no keeper lives: so nobody waits for the other way round.
Commands that run at once take neither.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True, weakref_slot=True)
class Mailbox:
    """It lives as long as somebody uses it; what waits is in the store.

    `beginning` is the id of the turn that begins at the moment, `begins` its task where a message of its own began it.
    `taking` are the rows that go into it. `aborted` asks it to stop as soon as it has begun. `news` wakes the keeper.
    """

    rows: asyncio.Lock = field(default_factory=asyncio.Lock)
    floor: asyncio.Lock = field(default_factory=asyncio.Lock)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    keyed: asyncio.Lock = field(default_factory=asyncio.Lock)
    keeper: asyncio.Task[None] | None = None
    beginning: str | None = None
    begins: asyncio.Task[None] | None = None
    taking: frozenset[str] = frozenset()
    aborted: bool = False
