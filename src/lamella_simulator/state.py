"""All that the simulator remembers between requests: clock, ledger, scripts, faults, the request log, and its limits.

Limits are per minute, as the vendors' are: what was spent in the last sixty seconds, by account or by key.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lamella_simulator.blocks import Prefix
from lamella_simulator.cache.engine import PrefixStore
from lamella_simulator.cache.ledger import Ledger, Outcome
from lamella_simulator.clock import Clock, SystemClock, VirtualClock
from lamella_simulator.diagnosing import Prints
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.models import Model, Prices
from lamella_simulator.pictures import Pictures
from lamella_simulator.replies import Fault, Reply
from lamella_simulator.settings import Settings
from lamella_simulator.tokens import TokenCounter

SECONDS = 60.0


@dataclass(slots=True)
class Moment:
    """All requests of one moment: on a virtual clock there may be thousands."""

    at: float
    requests: int
    tokens: int


class Minutes:
    """Sums by name. Times are arguments and need not grow: what lies after `now` is forgotten like what is too old."""

    def __init__(self) -> None:
        self._moments: dict[str, deque[Moment]] = {}

    @property
    def held(self) -> int:
        """Moments in memory."""
        return sum(len(moments) for moments in self._moments.values())

    def clear(self) -> None:
        self._moments.clear()

    def add(self, name: str, now: float, tokens: int = 0) -> None:
        moments = self._last_minute(name, now)
        if moments and moments[-1].at == now:
            moments[-1].requests += 1
            moments[-1].tokens += tokens
        else:
            moments.append(Moment(now, 1, tokens))

    def spent(self, name: str, now: float) -> tuple[int, int, float]:
        """Requests and tokens of the last minute, and the time of the first of them (now, if there is none)."""
        moments = self._last_minute(name, now)
        requests, tokens = sum(each.requests for each in moments), sum(each.tokens for each in moments)
        return requests, tokens, moments[0].at if moments else now

    def _last_minute(self, name: str, now: float) -> deque[Moment]:
        moments = self._moments.setdefault(name, deque())
        while moments and not now - SECONDS < moments[0].at <= now:
            moments.popleft()
        return moments


MOST_THOUGHT_CALLS = 100_000


@dataclass(slots=True)
class Record:
    """One request as received, and what became of it; `streamed` and `finished` grow while it is answered.

    `blocks` is how many the prompt falls into (tools, system blocks, content blocks), `hit` the last of them that was
    read from the cache. None if none was, or if tokens are cached without regard to blocks. The tokens are those that
    are billed, counted alike on every wire; `usage` is what the vendor's answer tells.
    """

    serial: int
    request_id: str
    at: float
    wire: str
    path: str
    body: bytes
    account: str = ""
    reply: str | None = None
    model: str = ""
    status: int = 200
    error: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    cost: float = 0.0
    streamed: int = 0
    finished: bool = False
    blocks: int = 0
    hit: int | None = None
    tokens_read: int = 0
    tokens_written: int = 0
    tokens_fresh: int = 0
    tokens_output: int = 0

    @property
    def json(self) -> Any:
        """The body as it was received. Raises msgspec.DecodeError for one that is not JSON."""
        return msgspec.json.decode(self.body)

    def bill(self, outcome: Outcome, output: int) -> None:
        """Adds the tokens of one pass over a prompt; a request that compacts has two."""
        self.tokens_read += outcome.read
        self.tokens_written += outcome.written
        self.tokens_fresh += outcome.fresh
        self.tokens_output += output

    def note(self, prefix: Prefix, outcome: Outcome) -> None:
        """How far a prompt was read."""
        self.blocks, self.hit = len(prefix.blocks), outcome.hit


class Simulator:
    """One provider: everything is in memory, one process, one event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock: Clock = SystemClock() if settings.clock == "system" else VirtualClock()
        self.counter = TokenCounter()
        self.pictures = Pictures()
        self.ledger = Ledger()
        self.engine = PrefixStore()
        self.prices: dict[str, Prices] = {}
        """Prices that an admin call has set, by model."""
        self.replies: dict[str, Reply] = {}
        self.faults: deque[Fault] = deque()
        """Faults for the next requests, whatever they are answered with."""
        self.records: deque[Record] = deque()
        self.prints = Prints()
        self.thought_calls: OrderedDict[bytes, None] = OrderedDict()
        """The last tool calls that were made after thinking, see `anthropic.thinking.check_complete`."""
        self._record_bytes = 0
        self._fired: Counter[str] = Counter()
        self._serials = itertools.count(1)
        self._spent = Minutes()
        self._bursts = Minutes()

    def reset(self) -> None:
        """Forget cache, prices, scripts, faults, log and limits; settings, clock and what was counted stay."""
        self.ledger.clear()
        self.engine.clear()
        self.prints.clear()
        self.prices.clear()
        self.replies.clear()
        self.faults.clear()
        self.records.clear()
        self.thought_calls.clear()
        self._record_bytes = 0
        self._fired.clear()
        self._spent.clear()
        self._bursts.clear()
        self._serials = itertools.count(1)

    def script(self, replies: dict[str, Reply]) -> None:
        self.replies.update(replies)
        for name in replies:
            self._fired[name] = 0

    def open_record(self, wire: str, path: str, body: bytes, at: float, reply: str | None) -> Record:
        serial = next(self._serials)
        record = Record(serial, self.identifier("req_", serial), at, wire, path, body, reply=reply)
        self.records.append(record)
        self._record_bytes += len(body)
        while len(self.records) > self.settings.keep_requests or self._record_bytes > self.settings.keep_request_bytes:
            self._record_bytes -= len(self.records.popleft().body)
        return record

    def remember_thought(self, calls: Iterable[bytes]) -> None:
        self.thought_calls.update(dict.fromkeys(calls))
        while len(self.thought_calls) > MOST_THOUGHT_CALLS:
            self.thought_calls.popitem(last=False)

    def commit(self, outcome: Outcome, start: float, available_at: float) -> None:
        """Enters a request whose answer begins into the ledger."""
        self.ledger.commit(outcome, start, available_at)
        self.ledger.keep(self.settings.keep_entries)

    def identifier(self, prefix: str, serial: int) -> str:
        """An id that a rerun with the same seed repeats."""
        drawn = hashlib.blake2b(f"{self.settings.seed}:{prefix}:{serial}".encode(), digest_size=12)
        return prefix + drawn.hexdigest()

    def scripted(self, name: str | None, named_by: str = "x-sim-reply") -> Reply | None:
        """The reply of a name. Raises 400 for one that nobody scripted: a test would pass for no reason."""
        if name is None:
            return None
        if (reply := self.replies.get(name)) is None:
            raise invalid(f"{named_by}: no reply {name!r} was scripted")
        return reply

    def matching(self, last: str) -> str | None:
        """The name of the first scripted reply whose `match` is found in what came last."""
        for name, reply in self.replies.items():
            if reply.match is not None and re.search(reply.match, last, re.DOTALL):
                return name
        return None

    def fault(self, name: str | None, reply: Reply | None) -> Fault | None:
        """The next fault that was asked for, or that of this use of a reply: after `times` uses it comes whole."""
        if self.faults:
            fault = self.faults.popleft()
            if fault.times > 1:
                self.faults.appendleft(msgspec.structs.replace(fault, times=fault.times - 1))
            return fault
        if name is None or reply is None or reply.fault is None or self._fired[name] >= reply.fault.times:
            return None
        self._fired[name] += 1
        return reply.fault

    def readable(self, fault: Fault | None) -> Ledger:
        """What a request may find: nothing where a fault makes its cache cold."""
        return Ledger() if fault is not None and fault.name == "cold_cache" else self.ledger

    def cost(self, model: Model, outcome: Outcome, output: int) -> float:
        """Dollars, at the prices that were set for the model or those of the table."""
        prices = self.prices.get(model.id, model.prices)
        return prices.cost(outcome.fresh, outcome.read, outcome.written_short, outcome.written_long, output)

    def counted(self, prefix: Prefix) -> int:
        """What a counting endpoint says of a prompt: what is billed, and by option off by a share."""
        total = prefix.total if self.settings.engine == "off" else self.engine.measure(prefix, self.settings)
        return round(total * (1.0 + self.settings.count_drift))

    def busy(self, key: str, now: float) -> bool:
        """Whether an older model's cache is missed because too many requests of a minute share one key."""
        limit = self.settings.legacy_requests_per_key
        if not limit:
            return False
        self._bursts.add(key, now)
        return self._bursts.spent(key, now)[0] > limit

    def admit(self, account: str, now: float) -> None:
        """Raises 429 when the account's minute is spent; without limits in the settings everything is admitted."""
        limits = self.settings
        if not limits.requests_per_minute and not limits.input_tokens_per_minute:
            return
        requests, tokens, since = self._spent.spent(account, now)
        over_requests = limits.requests_per_minute and requests >= limits.requests_per_minute
        over_tokens = limits.input_tokens_per_minute and tokens >= limits.input_tokens_per_minute
        if over_requests or over_tokens:
            wait = max(1.0, SECONDS - (now - since))
            raise ProviderError(429, "This request would exceed your rate limit.", retry_after=wait)

    def spend(self, account: str, now: float, tokens: int) -> None:
        self._spent.add(account, now, tokens)

    def allowance(self, account: str, now: float) -> dict[str, tuple[int, int]]:
        """Limit and remainder of requests and input tokens in this minute; unlimited shows as a large number."""
        spent_requests, spent_tokens, _ = self._spent.spent(account, now)
        requests = self.settings.requests_per_minute or 100_000
        tokens = self.settings.input_tokens_per_minute or 1_000_000_000
        return {
            "requests": (requests, max(0, requests - spent_requests)),
            "input-tokens": (tokens, max(0, tokens - spent_tokens)),
        }
