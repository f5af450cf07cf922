"""Puts recorded summaries and stubs in the place of messages that a client sends again.

    change = change_of(history, found, facts)      # what is recorded for messages that begin as these
    body = with_change(body, dialect, history, change)

A client sends `u1 a1 u2 a2 u3`. If a summary is recorded for `u1 a1`, the upstream gets `Σ u2 a2 u3`. All that is not
replaced keeps its bytes and its place. Which replacement holds follows from the messages and from what is stored, so
the same request has the same bytes after a restart. A turn that had begun when a replacement was made goes on without
it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from lamella.context.choices import KnownDecisions, pruned_steps
from lamella.context.results import NO_EXTRACTS, extracts_of, stubs_of
from lamella.context.segments import SUMMARY_CLOSE, SUMMARY_OPEN
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Step, Turn
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Segment
from lamella.core.records import Replacement, ReplacementKind
from lamella.gateway.dialects import Dialect, ObservedWindow
from lamella.gateway.history import History
from lamella.gateway.matching import answer_digest

OPENING = (
    "The beginning of this conversation is left out here. Its summary follows. All that comes after this message is "
    "word for word."
)
QUOTED = "These instructions stood in it, and hold on:"
UNDERSTOOD = "Understood."
"""Answers the summary over Chat, since some servers want user and assistant to alternate."""

SUMMARY = "summary"
"""The id of the segment that stands for what was replaced."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Change:
    """What stands upstream: `text` in the place of the first `cut` messages, `stubs` in that of results, by call, in
    the messages up to `stubbed`. `turns` are those that stay, `prunes` what was decided about their results. `is_held`:
    a later summary was taken back, so none is made by itself.
    """

    turns: tuple[Turn, ...] = ()
    summary: Replacement | None = None
    cut: int = 0
    text: str = ""
    prunes: tuple[Replacement, ...] = ()
    stubs: Mapping[str, str] = field(default_factory=dict)
    stubbed: int = 0
    is_held: bool = False

    @property
    def made(self) -> tuple[Replacement, ...]:
        """The replacements that hold; none if nothing is replaced."""
        return (*([self.summary] if self.summary is not None else []), *(self.prunes if self.stubs else ()))

    def decisions(self, line: str) -> tuple[Decision, ...]:
        """The prunings as decisions of the engine."""
        kind = DecisionKind.PRUNE
        return tuple(Decision(kind, line, one.key, "gateway", one.why, one.numbers) for one in self.prunes)


def change_of(history: History, found: Sequence[Replacement], facts: ModelFacts) -> Change:
    """What is replaced of these messages, of the replacements that are stored for messages that begin alike."""
    places = {key: place for place, key in enumerate(history.keys)}
    now = history.turns[-1].id if history.turns else ""
    found = [one for one in found if one.key in places and now not in one.skipped]
    cuts = [(cut, one) for one in found if (cut := _cut(history, places, one, facts)) is not None]
    cuts.sort(key=lambda pair: (pair[0], pair[1].id))
    summaries = [pair for pair in cuts if pair[1].kind is ReplacementKind.SUMMARY]
    cut, summary = summaries[-1] if summaries else (0, None)
    is_held = any(one.kind is ReplacementKind.UNDONE and place >= cut for place, one in cuts)
    text = summary_text(summary.texts, history.quoted_before(cut)) if summary is not None else ""
    turns = history.turns[history.turn_at(cut) :]
    change = Change(turns, summary, cut, text, is_held=is_held)
    prunes = [one for one in found if one.kind is ReplacementKind.PRUNE and places[one.key] >= cut]
    return _with_stubs(change, history, places, tuple(prunes), facts) if prunes else change


def summary_text(texts: Sequence[str], quoted: Sequence[str]) -> str:
    """The message in the place of what is replaced: summaries, then what programs said there."""
    parts = [OPENING, *(f"{SUMMARY_OPEN}\n{text}\n{SUMMARY_CLOSE}" for text in texts)]
    return "\n\n".join([*parts, QUOTED, *quoted] if quoted else parts)


def _cut(history: History, places: Mapping[str, int], one: Replacement, facts: ModelFacts) -> int | None:
    """How many messages a summary stands for; None if it can't be used for these."""
    if one.kind is ReplacementKind.PRUNE:
        return None
    end = places[one.key] + 1
    start = next((start for start in history.starts if start >= end), None)
    if start is None or (not one.answer and start != end):
        return None
    before = history.turn_at(start)
    if one.answer and answer_digest(_answer(history.turns[before - 1] if before else None)) != one.answer:
        return None
    if facts.binds_thinking and _thinks(history, start, one.skipped):
        return None
    return start


def _answer(turn: Turn | None) -> str:
    return turn.steps[-1].text if turn is not None and turn.steps else ""


def _thinks(history: History, start: int, turns: Sequence[str]) -> bool:
    """Whether signed thinking of these turns stays after a message: it is bound to all that stood before it."""
    ends = (*history.starts[1:], len(history.keys))
    spans = zip(history.turns, history.starts, ends, strict=True)
    return any(
        turn.id in turns and first >= start and any(first <= place < end for place in history.thinks)
        for turn, first, end in spans
    )


def _with_stubs(
    change: Change, history: History, places: Mapping[str, int], prunes: tuple[Replacement, ...], facts: ModelFacts
) -> Change:
    """The change with the stubs of these prunings."""
    change = replace(change, prunes=prunes)
    known = KnownDecisions(facts.name, change.decisions(""))
    stubbed, extracted = pruned_steps(change.turns, known.boundary(change.turns)), known.extracted(change.turns)
    steps = [(turn, step) for turn in change.turns for step in turn.steps if step.id in stubbed]
    if not steps or (facts.binds_thinking and any(place >= change.cut for place in history.thinks)):
        return replace(change, prunes=())
    stubs = {id: text for turn, step in steps for id, text in _stubs(turn, step, extracting=step.id in extracted)}
    return replace(change, stubs=stubs, stubbed=max(places[step.id] for _, step in steps) + 1)


def _stubs(turn: Turn, step: Step, *, extracting: bool) -> Iterator[tuple[str, str]]:
    given = {result.call_id: result.content for result in step.results}
    for stub in stubs_of(step, extracts=extracts_of(turn, step) if extracting else NO_EXTRACTS):
        if given.get(stub.call_id, stub.content) != stub.content:
            yield stub.call_id, stub.content


# The body


def with_change(body: bytes, dialect: Dialect, messages: int, change: Change) -> bytes:
    """The same body with another beginning of its `messages`. All else keeps its bytes and its place."""
    fields = _fields.decode(body)
    name = "input" if dialect is Dialect.RESPONSES else "messages"
    items = _items.decode(fields[name])
    leading = len(items) - messages
    stubbed = [_stubbed(item, change.stubs) for item in items[leading + change.cut : leading + change.stubbed]]
    rest = items[leading + max(change.cut, change.stubbed) :]
    summary = [msgspec.Raw(msgspec.json.encode(one)) for one in summary_messages(dialect, change.text)]
    fields[name] = msgspec.Raw(msgspec.json.encode([*items[:leading], *summary, *stubbed, *rest]))
    return msgspec.json.encode(fields)


def summary_messages(dialect: Dialect, text: str) -> list[dict[str, object]]:
    """The messages in the place of what is replaced; none without a text."""
    if not text:
        return []
    match dialect:
        case Dialect.MESSAGES:
            return [{"role": "user", "content": [{"type": "text", "text": text}]}]
        case Dialect.CHAT:
            return [{"role": "user", "content": text}, {"role": "assistant", "content": UNDERSTOOD}]
        case _:
            return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]


def _stubbed(item: msgspec.Raw, stubs: Mapping[str, str]) -> msgspec.Raw:
    """A message with stubs in the place of its results; its other fields and blocks keep their bytes."""
    fields = _fields.decode(item)
    for call, said in (("tool_call_id", "content"), ("call_id", "output"), ("tool_use_id", "content")):
        stub = stubs.get(_text(fields.get(call)))
        if stub is not None and said in fields:
            fields[said] = msgspec.Raw(msgspec.json.encode(stub))
            return msgspec.Raw(msgspec.json.encode(fields))
    content = bytes(fields.get("content", b"")).lstrip()
    if not content.startswith(b"[") or not any(_text(fields.get("role")) == role for role in ("user", "tool")):
        return item
    blocks = _items.decode(content)
    changed = [_stubbed(block, stubs) if bytes(block).lstrip().startswith(b"{") else block for block in blocks]
    if all(new is old for new, old in zip(changed, blocks, strict=True)):
        return item
    fields["content"] = msgspec.Raw(msgspec.json.encode(changed))
    return msgspec.Raw(msgspec.json.encode(fields))


def _text(value: msgspec.Raw | None) -> str:
    found = msgspec.json.decode(value) if value is not None and bytes(value).lstrip().startswith(b'"') else ""
    return str(found)


# The window of the body, in the client's own numbers


def as_sent(window: ObservedWindow, dialect: Dialect, change: Change) -> ObservedWindow:
    """The window of a changed body: the summary named as one, and the messages numbered as the client has them."""
    made = len(summary_messages(dialect, change.text))
    first = len(window.groups) - len(window.keys)
    segments, groups = list(window.segments), list(window.groups)
    for place in range(len(window.keys)):
        at = first + place
        number = place - made + change.cut + 1
        named = _named(segments[at], place, change) if place < made else _numbered(segments[at], number)
        segments[at] = named
        groups[at] = tuple(replace(block, segment=named.id) for block in groups[at])
    return replace(window, segments=tuple(segments), groups=tuple(groups))


def _named(segment: Segment, place: int, change: Change) -> Segment:
    label = f"Summary of messages 1 to {change.cut}" if not place else "Answer to the summary"
    id = SUMMARY if not place else f"{SUMMARY} {place + 1}"
    return replace(segment, id=id, source=id, kind=Kind.SUMMARY, label=label, letters="Σ", owner="engine")


def _numbered(segment: Segment, number: int) -> Segment:
    id = f"message {number}"
    label = f"Message {number} ({segment.label.partition(' (')[2]}"
    return replace(segment, id=id, source=id, label=label)
