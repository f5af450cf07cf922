"""Notices clients that loop: they send and pay, and nothing comes of it.

There are two kinds. A client whose limit lies below its fixed prompt compacts, is over the limit again, and compacts
again: the summary that it got comes back in a user's message, five times in a row, with at most two requests for each.
A client that names no session begins another line with each summary: then its first message counts, and the alarm is on
the newest line. And a client may send the same messages again and again, more than 60 times a minute.

What moves on is no loop: a tool loop has new messages in each request, a batch or a classifier other messages.
Requests that overlap are samples of one prompt. Requests that the provider could not take (429, 5xx) are retried.

An alarm ends when its client has been silent for a minute. Nothing here is stored; all of it is bounded.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from lamella.core.records import Line, LoopAlarm, LoopKind
from lamella.core.tokens import short
from lamella.gateway.dialects import ObservedWindow
from lamella.gateway.exchange import Exchange
from lamella.gateway.matching import Relation, match

SILENCE = timedelta(minutes=1)
"""An alarm ends after so long without a request."""

COMPACTIONS = 5
"""So many in a row, each with few requests since the one before, are a loop."""

FEW = 2
"""Requests for each compaction: the one that was over the limit, and the one that asks for a summary."""

APART = timedelta(minutes=10)
"""Compactions that are further apart are no row."""

REPEATS = 60
"""The same messages so often in a minute are a loop."""

ANSWERS = 16
"""The newest answers to a client that names no session: one of them may be the summary that its next line quotes."""

WATCHED = 2_000
"""Lines, and lists of messages, that are watched at once; the oldest are forgotten."""

NEWS = timedelta(hours=1)
"""A loop is logged once in so long."""

_NEEDLE = 200
"""Characters of an answer by which it is found in a later message."""

_SHORTEST = 20


@dataclass(slots=True)
class _Trail:
    """What is known of a line, or of the lines of a client without a session: a part of its newest answer, and the row
    of its compactions with their requests. `line` is the newest line."""

    line: str = ""
    session: str | None = None
    needle: str = ""
    since: int = 0
    compactions: int = 0
    first: datetime | None = None
    last: datetime | None = None
    requests: int = 0
    cost: float = 0.0


@dataclass(slots=True)
class _Repeats:
    """When the same messages came, in the last minute, and until when the newest of them was answered."""

    at: deque[datetime] = field(default_factory=lambda: deque(maxlen=REPEATS + 1))
    since: datetime | None = None
    requests: int = 0
    cost: float = 0.0
    answered: datetime | None = None


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """A request with its line as it is now, when its answer had ended, and what was said."""

    exchange: Exchange
    window: ObservedWindow
    relation: Relation
    line: Line
    said: str
    cost: float
    ended: datetime

    @property
    def counts(self) -> bool:
        """Whether the provider took it, or refused what it says."""
        return 200 <= self.exchange.status < 500 and self.exchange.status != 429


class LoopWatch:
    """The loops of the clients of a server."""

    def __init__(self) -> None:
        self._trails: OrderedDict[tuple[str, str], _Trail] = OrderedDict()
        self._chains: OrderedDict[tuple[str, str], _Trail] = OrderedDict()
        self._answers: OrderedDict[tuple[str, str], deque[str]] = OrderedDict()
        self._repeats: OrderedDict[tuple[str, str, str], _Repeats] = OrderedDict()
        self._alarms: dict[str, dict[str, tuple[Line, LoopAlarm]]] = {}
        self._told: OrderedDict[str, datetime] = OrderedDict()
        self._noted: tuple[Exchange, LoopAlarm | None] | None = None

    def summarised(self, exchange: Exchange, window: ObservedWindow) -> str | None:
        """The line of the session whose newest answer, a summary, is in a user's message here; None if there is none.

        A client may compact with other tools, and then go on with a message that nothing else connects with its line.
        """
        if exchange.session is None or not window.has_tools:
            return None
        for (owner, line_id), trail in reversed(self._trails.items()):
            if owner == exchange.caller.user_id and trail.session == exchange.session and _quotes(window, trail.needle):
                return line_id
        return None

    def note(self, seen: AnsweredRequest) -> LoopAlarm | None:
        """Count a request, once. Returns the alarm of its line, if it loops."""
        if self._noted is None or self._noted[0] is not seen.exchange:
            self._noted = seen.exchange, self._counted(seen)
        return self._noted[1]

    def _counted(self, seen: AnsweredRequest) -> LoopAlarm | None:
        line, owner = seen.line, seen.exchange.caller.user_id
        compacted, repeated = self._compacted(seen) or self._chained(seen), self._repeated(seen)
        known = self.alarm(owner, line.id, seen.exchange.at)
        found = compacted or repeated
        if known is not None and (found or self._goes_on(known, owner, seen)):
            more = known.times + (found is not None)
            requests, cost = known.requests + 1, known.cost + seen.cost
            found = replace(known, times=more, requests=requests, cost=cost, at=seen.ended)
        if found is not None:
            self._keep(owner, replace(line, alarm=found), found)
        elif known is not None:
            self._alarms[owner].pop(line.id)
        return found

    def is_news(self, line_id: str, now: datetime) -> bool:
        """Whether the alarm of a line is to be logged: once in an hour."""
        told = self._told.get(line_id)
        if told is not None and now - told < NEWS:
            return False
        self._told[line_id] = now
        self._told.move_to_end(line_id)
        if len(self._told) > WATCHED:
            self._told.popitem(last=False)
        return True

    def alarm(self, owner: str, line_id: str, now: datetime) -> LoopAlarm | None:
        """The alarm of a line that has not ended."""
        _, alarm = self._alarms.get(owner, {}).get(line_id, (None, None))
        return alarm if alarm is not None and now - alarm.at < SILENCE else None

    def is_alarmed(self, owner: str) -> bool:
        """Whether a client of this user loops, or did not long ago: one look-up, for every request."""
        return owner in self._alarms

    def of(self, exchange: Exchange, window: ObservedWindow) -> LoopAlarm | None:
        """The alarm of the line that this request would go on. It is counted as refused there."""
        owner, now = exchange.caller.user_id, exchange.at
        for line, alarm in list(self._live(owner, now)):
            # It may be any request of the loop again: all of them begin with the same message.
            same = (exchange.client, exchange.session) == (line.client, line.session)
            begins_alike = same and bool(window.keys) and window.keys[0] == line.keys[0]
            begins_so = same and exchange.session is None and self._begins_with_an_answer(exchange, window)
            if begins_alike or begins_so or match(window, exchange.session, [line]).relation is not Relation.NEW:
                refused = replace(alarm, refused=alarm.refused + 1, at=now)
                self._alarms[owner][line.id] = (line, refused)
                return refused
        return None

    def _live(self, owner: str, now: datetime) -> Iterator[tuple[Line, LoopAlarm]]:
        """The alarms of a user; those that have ended are forgotten."""
        alarms = self._alarms.get(owner, {})
        for line_id, (_, alarm) in list(alarms.items()):
            if now - alarm.at >= SILENCE:
                del alarms[line_id]
        if not alarms:
            self._alarms.pop(owner, None)
        yield from alarms.values()

    def _keep(self, owner: str, line: Line, alarm: LoopAlarm) -> None:
        alarms = self._alarms.setdefault(owner, {})
        alarms.pop(line.id, None)
        alarms[line.id] = (line, alarm)
        if len(alarms) > WATCHED:
            alarms.pop(next(iter(alarms)))

    def _goes_on(self, alarm: LoopAlarm, owner: str, seen: AnsweredRequest) -> bool:
        """Whether a request that is no alarm itself belongs to the loop."""
        if alarm.kind is LoopKind.COMPACTED:
            return self._trails[owner, seen.line.id].since <= FEW
        repeats = self._repeats.get((owner, seen.exchange.client, seen.line.tip))
        return repeats is not None and repeats.requests > 1

    def _compacted(self, seen: AnsweredRequest) -> LoopAlarm | None:
        """An alarm if a line was compacted again and again."""
        trail = _kept(self._trails, (seen.exchange.caller.user_id, seen.line.id), _Trail)
        is_summary = seen.relation is Relation.REWRITTEN and _quotes(seen.window, trail.needle)
        trail.session, trail.since = seen.line.session, trail.since + 1
        trail.needle = needle_of(seen.said) or trail.needle
        return _in_a_row(trail, seen, is_summary=is_summary)

    def _chained(self, seen: AnsweredRequest) -> LoopAlarm | None:
        """An alarm if a client that names no session began line after line with the summary of the one before."""
        exchange, line = seen.exchange, seen.line
        if exchange.session is not None:
            return None
        key = exchange.caller.user_id, exchange.client
        is_summary = seen.relation is Relation.NEW and self._begins_with_an_answer(exchange, seen.window)
        chain = _kept(self._chains, key, _Trail)
        chain.since += 1
        found = _in_a_row(chain, seen, is_summary=is_summary)
        if needle := needle_of(seen.said):
            _kept(self._answers, key, lambda: deque(maxlen=ANSWERS)).append(needle)
        if found is not None and chain.line:
            self._alarms.get(key[0], {}).pop(chain.line, None)
            if chain.line in self._told:
                self._told[line.id] = self._told[chain.line]
        chain.line = line.id if is_summary else chain.line
        return found

    def _begins_with_an_answer(self, exchange: Exchange, window: ObservedWindow) -> bool:
        """Whether the first message of a user quotes a late answer to this client."""
        answers = self._answers.get((exchange.caller.user_id, exchange.client), ())
        texts = (text for role, text in zip(window.roles, window.texts, strict=True) if role == "user")
        first = next(texts, "")
        return window.has_tools and any(needle in first for needle in answers)

    def _repeated(self, seen: AnsweredRequest) -> LoopAlarm | None:
        """An alarm if the same messages came too often."""
        exchange, line = seen.exchange, seen.line
        key = (exchange.caller.user_id, exchange.client, line.tip)
        if not line.tip or not seen.counts:
            return None
        repeats = _kept(self._repeats, key, _Repeats)
        overlaps = repeats.answered is not None and exchange.at < repeats.answered
        repeats.answered = seen.ended
        if overlaps:
            return None
        while repeats.at and exchange.at - repeats.at[0] >= SILENCE:
            repeats.at.popleft()
        if not repeats.at:
            repeats.since, repeats.requests, repeats.cost = exchange.at, 0, 0.0
        repeats.at.append(exchange.at)
        repeats.requests, repeats.cost = repeats.requests + 1, repeats.cost + seen.cost
        if len(repeats.at) <= REPEATS:
            return None
        times, since = repeats.requests, repeats.since or exchange.at
        return LoopAlarm(LoopKind.REPEATED, times, times, repeats.cost, _fixed(seen.window), since, seen.ended)


def _in_a_row(trail: _Trail, seen: AnsweredRequest, *, is_summary: bool) -> LoopAlarm | None:
    """Count a request, which may be a compaction. Gives an alarm if there were enough in a row."""
    at = seen.exchange.at
    if is_summary:
        if trail.last is None or trail.since > FEW or at - trail.last > APART:
            trail.compactions, trail.first, trail.requests, trail.cost = 0, at, 0, 0.0
        trail.compactions, trail.last, trail.since = trail.compactions + 1, at, 0
    trail.requests, trail.cost = trail.requests + 1, trail.cost + seen.cost
    if not is_summary or trail.compactions < COMPACTIONS or trail.first is None:
        return None
    made = trail.compactions, trail.requests, trail.cost
    return LoopAlarm(LoopKind.COMPACTED, *made, _fixed(seen.window), trail.first, seen.ended)


KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


def _kept(known: OrderedDict[KeyT, ValueT], key: KeyT, new: Callable[[], ValueT]) -> ValueT:
    """The value of a key, which is the newest from now on; the oldest is forgotten."""
    found = known.get(key)
    if found is None:
        found = known[key] = new()
    known.move_to_end(key)
    if len(known) > WATCHED:
        known.popitem(last=False)
    return found


def needle_of(said: str) -> str:
    """The longest line of an answer, by which it is found again; "" if all are short."""
    longest = max((line.strip() for line in said.splitlines()), key=len, default="")[:_NEEDLE]
    return longest if len(longest) >= _SHORTEST else ""


def _quotes(window: ObservedWindow, needle: str) -> bool:
    """Whether a message that is no answer has these words."""
    texts = zip(window.roles, window.texts, strict=True)
    return bool(needle) and any(role != "assistant" and needle in text for role, text in texts)


def told(alarm: LoopAlarm) -> str:
    """What happened, with numbers, and what to do."""
    span = max(1, round((alarm.at - alarm.since).total_seconds()))
    within = f"within {span} s" if span < 120 else f"within {round(span / 60)} min"
    more = "1 more request was" if alarm.refused == 1 else f"{alarm.refused} more requests were"
    refused = f" {more} refused." if alarm.refused else ""
    bill = f"{alarm.requests} requests, ${alarm.cost:.4f}"
    if alarm.kind is LoopKind.REPEATED:
        return f"This client loops: it sent the same messages {alarm.times} times {within} ({bill}).{refused}"
    return (
        f"This client loops: it compacted its conversation {alarm.times} times {within} ({bill}). Its limit may lie "
        f"below its fixed prompt of about {short(alarm.fixed_tokens)} tokens.{refused}"
    )


def _fixed(window: ObservedWindow) -> int:
    """Tokens of the tools and the system prompt."""
    pairs = zip(window.segments, window.groups, strict=True)
    return sum(segment.tokens for segment, group in pairs if group and group[0].level != "messages")
