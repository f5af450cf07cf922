"""What passes the gateway: where a request goes, the request with its answer, its window, and the record of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from lamella.cache.why import Why
from lamella.core.access import LineStorage
from lamella.core.errors import LamellaError
from lamella.core.json import decode_in_pieces, decode_mended
from lamella.core.models import ModelFacts, Price
from lamella.core.prompt import Marker, WireBlock
from lamella.core.records import Caller, Line, NewRequest, Replacement, RequestRecord
from lamella.gateway.dialects import Dialect, ObservedWindow, read, tokens_of
from lamella.gateway.history import History
from lamella.gateway.matching import Relation
from lamella.gateway.replacing import Change, as_sent
from lamella.gateway.translation import Translation
from lamella.llm.upstream import Upstream

MAX_COPY_BYTES = 16_000_000
"""Bytes of an answer that are kept for the record. A longer answer is relayed whole and recorded without its text."""

PROMPT_FIELDS = frozenset({"messages", "input", "system", "instructions", "tools"})
"""The long fields of a body, which few here read."""

REMEMBERED = 20_000
"""Blocks whose tokens are remembered; about 3 MB."""


ADDED_KEY = "prompt_cache_key was added here: no other user's requests read this cache."


DROPPED_THINKING = "Thinking of an agent, or of a model of another API, is left out: the upstream would refuse it."


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes: the connection, the path there, our key, the model's name there, and what is known of it.

    `account` names the cache that its requests share.
    """

    connection: Upstream
    path: str
    key: str
    model: str
    account: str
    facts: ModelFacts
    dialect: Dialect
    """The API that is spoken there."""
    takes_cache_keys: bool = True
    """Whether `prompt_cache_key` may be sent there."""
    price: Price | None = None
    """The price of the model at an upstream of the file, which `facts` have too; None at a provider."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request that was stored: its line as it is now, how it stands to the request before, and why it read what it
    read from the cache.
    """

    line: Line
    request: RequestRecord
    relation: Relation
    why: Why


@dataclass(slots=True)
class ManagedExchange:
    """What is known of a request whose beginning may be replaced: the client's body (`sent`), its history, the change,
    and what is stored for messages that begin as these (`found`). `begun` are the turns that began since it came,
    `requests` those that were made for it here.
    """

    sent: bytes
    history: History
    change: Change
    found: tuple[Replacement, ...] = ()
    begun: set[str] = field(default_factory=set)
    stored: asyncio.Event | None = None
    """Set while a replacement is stored; requests that come then wait for it."""
    requests: list[NewRequest] = field(default_factory=list)


@dataclass(slots=True)
class Exchange:
    """What passed: a request and its answer, in the upstream's API."""

    caller: Caller
    dialect: Dialect
    client: str
    session: str | None
    route: Route
    body: bytes
    at: datetime
    storage: LineStorage = LineStorage.FULL
    """What is stored of it."""
    added: tuple[Marker, ...] = ()
    """The markers that were added here."""
    has_added_key: bool = False
    """The key of the provider's cache was added here."""
    drops_thinking: bool = False
    """Thinking under a seal of this server was left out."""
    hides_usage: bool = False
    """The usage of the stream was asked for here, and is not for the caller."""
    is_kept: bool = False
    """The upstream keeps the response."""
    response_id: str | None = None
    """The id of a response that the upstream keeps."""
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    answer: list[bytes] = field(default_factory=list)
    size: int = 0
    error: LamellaError | None = None
    ended: datetime | None = None
    """When the answer had ended."""
    left: bool = False
    """The client left before the answer was whole."""
    translation: Translation | None = None
    """How it was translated, if its caller speaks another API."""
    forwarded: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The headers as they went on, with our key. They are stored nowhere."""
    managed: ManagedExchange | None = None
    """What is done so that its history gets no longer than it pays; None if nothing is."""
    recorded: asyncio.Future[Recorded] | None = None
    """Gets the record, or why there is none; None if nobody waits for it."""

    def keep(self, data: bytes) -> None:
        """Keep a copy of a piece of the answer."""
        self.size += len(data)
        if self.size <= MAX_COPY_BYTES and self.storage is not LineStorage.OFF:
            self.answer.append(data)

    def tell(self, recorded: Recorded | LamellaError) -> None:
        """Give the record, or why there is none, to the one who waits for it."""
        if self.recorded is None or self.recorded.done():
            return
        if isinstance(recorded, LamellaError):
            self.recorded.set_exception(recorded)
        else:
            self.recorded.set_result(recorded)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not forwarded as it was."""
        notes = self.translation.notes if self.translation is not None else ()
        notes += (ADDED_KEY,) if self.has_added_key else ()
        return (*notes, DROPPED_THINKING) if self.drops_thinking else notes


def window_of_exchange(exchange: Exchange, weigh: Callable[[WireBlock], int]) -> ObservedWindow:
    """The window of a request as it is now, as far as it can be read. Raises `msgspec.DecodeError`."""
    try:
        body = decode_in_pieces(exchange.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = decode_mended(exchange.body)
    return read(exchange.dialect, body, weigh)


def windows_of_exchange(
    exchange: Exchange, weigh: Callable[[WireBlock], int]
) -> tuple[ObservedWindow, ObservedWindow | None]:
    """The window that the client sent, and the one that went on if its beginning was replaced."""
    now, managed = window_of_exchange(exchange, weigh), exchange.managed
    if managed is None or not managed.change.made:
        return now, None
    sent = read(exchange.dialect, decode_in_pieces(managed.sent), weigh)
    return sent, as_sent(now, exchange.dialect, managed.change)


class BlockWeights:
    """Local tokens of blocks, by digest: a client sends a block again with every request, and it is counted once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def __call__(self, block: WireBlock) -> int:
        known = self._known.get(block.digest)
        if known is None:
            known = self._known[block.digest] = tokens_of(block)
            if len(self._known) > REMEMBERED:
                self._known = dict(list(self._known.items())[REMEMBERED // 2 :])
        return known
