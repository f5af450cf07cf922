"""Renders the turns of a path by a layout's slots, each the same way whether it runs or is long over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from lamella.context.documents import key_of
from lamella.context.layout import Layout, OldResults, Slot
from lamella.context.results import NO_EXTRACTS, ResultCut, cut_results, extracts_of, notices_of, stubs_of
from lamella.context.segments import (
    SegmentPlace,
    dynamic_segment,
    files_segment,
    reminder_segment,
    step_segment,
    user_segment,
)
from lamella.core.json import digest
from lamella.core.messages import Attachment, Reasoning, Step, ToolResult, Turn
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Lifetime, Role, Segment, SegmentNote, Zone


@dataclass(frozen=True, slots=True)
class PrefixState:
    """The state on which a turn's rendering depends besides the turn: a fingerprint of everything before it.

    `durable` chains the digests of all segments that stay. `reminder` is the text of the last step's reminder, if
    reminders stay in place; `dynamic` is the dynamic context that was sent last, if it stays.
    """

    durable: str
    reminder: str = ""
    dynamic: str = ""

    def behind(self, segment: Segment) -> PrefixState:
        """The standing after `segment`."""
        return PrefixState(digest(self.durable.encode(), segment.digest.encode()), self.reminder, self.dynamic)


@dataclass(frozen=True, slots=True)
class RenderView:
    """How a request shows the path: listed files, stubs instead of results, cut results.

    Of the `pruned` steps, results of the tools `kept` are still shown, unless the step is in `emptied`. Stubs of
    `extracted` steps keep extracts. `readable`: cut results say by which id they can be read again.
    """

    listed: frozenset[str] = frozenset()
    pruned: frozenset[str] = frozenset()
    cuts: frozenset[ResultCut] = frozenset()
    kept: frozenset[str] = frozenset()
    emptied: frozenset[str] = frozenset()
    readable: bool = False
    extracted: frozenset[str] = frozenset()

    def of(self, turn: Turn) -> RenderView:
        """The part of the view that concerns one turn."""
        if not (self.listed or self.pruned or self.cuts):
            return WHOLE
        files = frozenset(key_of(attachment) for attachment in turn.user.attachments)
        steps = frozenset(step.id for step in turn.steps)
        pruned = self.pruned & steps
        cuts = frozenset(self._cuts(turn)) if self.cuts else self.cuts
        kept = self.kept if pruned else frozenset()
        emptied, extracted = self.emptied & steps, self.extracted & pruned
        return RenderView(self.listed & files, pruned, cuts, kept, emptied, self.readable, extracted)

    def _cuts(self, turn: Turn) -> Iterator[ResultCut]:
        calls = {result.call_id for step in turn.steps for result in step.results}
        return (cut for cut in self.cuts if cut.call_id in calls)

    def cuts_of(self, step: Step) -> tuple[ResultCut, ...]:
        """The cuts of one step's results."""
        if not self.cuts:
            return ()
        calls = {result.call_id for result in step.results}
        return tuple(sorted(cut for cut in self.cuts if cut.call_id in calls))


WHOLE = RenderView()
"""Every file included, every result shown."""


@dataclass(frozen=True, slots=True)
class RenderedTurn:
    """A turn as segments, with the input that it was made from, so that an equal one is not made again."""

    turn: Turn
    zone: Zone
    view: RenderView
    before: PrefixState
    segments: tuple[Segment, ...]
    after: PrefixState
    notes: tuple[SegmentNote, ...] = ()


@dataclass(slots=True)
class _Out:
    """The segments of one turn while they are made, the state after the last, and notes."""

    zone: Zone
    standing: PrefixState
    view: RenderView
    segments: list[Segment] = field(default_factory=list)
    notes: list[SegmentNote] = field(default_factory=list)

    def add(self, segment: Segment) -> None:
        """Append a segment that stays."""
        self.segments.append(segment)
        self.standing = self.standing.behind(segment)

    def pass_by(self, segment: Segment) -> None:
        """Append a temporary segment: nothing that stays depends on it."""
        self.segments.append(segment)

    def note(self, segment: str, text: str) -> None:
        """Say something of a segment."""
        self.notes.append(SegmentNote(segment, text))


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders turns for one layout and model. `moving` are the segments that travel with the running turn."""

    layout: Layout
    model: ModelFacts

    @property
    def _reminder_slot(self) -> Slot | None:
        return next((slot for slot in self.layout.slots if slot.kind is Kind.REMINDER), None)

    @property
    def keeps_reminders(self) -> bool:
        """Whether reminders stay where they were sent, because this model's thinking is bound to them."""
        slot = self._reminder_slot
        return self.model.binds_thinking and slot is not None and slot.keep_for_bound_thinking

    def _reminder_role(self, before: Sequence[Segment]) -> Role:
        """Role `system` if layout and model support it, and only after a user's message or a result."""
        slot = self._reminder_slot
        system = slot is not None and slot.as_system and self.model.system_messages
        behind = next((s.messages[-1].role for s in reversed(before) if s.messages), None)
        return "system" if system and behind in ("user", "tool") else "user"

    def turn(
        self,
        turn: Turn,
        number: int,
        view: RenderView,
        before: PrefixState,
        zone: Zone,
        moving: Mapping[Kind, Segment] | None = None,
    ) -> RenderedTurn:
        """The segments of a turn, by the layout's slots. `zone` is their zone in this request."""
        own = view.of(turn)
        out = _Out(zone, before, own)
        for slot in self.layout.slots:
            if slot.zone is Zone.TRAVELLING and moving and slot.kind in moving:
                out.pass_by(moving[slot.kind])
            elif slot.zone is Zone.TURN:
                self._fill(slot, turn, number, out)
        return RenderedTurn(turn, zone, own, before, tuple(out.segments), out.standing, tuple(out.notes))

    def _fill(self, slot: Slot, turn: Turn, number: int, out: _Out) -> None:
        match slot.kind:
            case Kind.FILES:
                self._files(turn, out)
            case Kind.USER:
                out.add(user_segment(turn, number, out.zone, self.model))
                self._note_unseen(turn, out)
            case Kind.DYNAMIC:
                self._keep_dynamic(slot, turn, out)
            case Kind.STEP:
                self._steps(slot, turn, number, out)
            case _:
                raise ValueError(f"a layout can't put {slot.kind} into zone {slot.zone}")

    def _note_unseen(self, turn: Turn, out: _Out) -> None:
        for attachment in turn.user.attachments if self.model.images is None else ():
            if attachment.image is not None:
                out.note(f"{turn.id}/user", unseen(attachment, self.model))

    def _files(self, turn: Turn, out: _Out) -> None:
        if not turn.user.files:
            return
        out.add(files_segment(turn, out.view.listed, out.zone))
        for attachment in turn.user.files:
            if key_of(attachment) in out.view.listed:
                out.note(f"{turn.id}/files", f"“{attachment.title}” is listed, not included")

    def _keep_dynamic(self, slot: Slot, turn: Turn, out: _Out) -> None:
        """Dynamic context that stays where it was sent. It is sent again only if it changes, or withdrawn."""
        text, before = turn.user.dynamic, out.standing.dynamic
        withdrawn = slot.when_changed and not text and bool(before)
        if not withdrawn and (not text or (slot.when_changed and text == before)):
            return
        out.add(dynamic_segment(turn, SegmentPlace(out.zone, slot.lifetime)))
        out.standing = replace(out.standing, dynamic=text)

    def _steps(self, slot: Slot, turn: Turn, number: int, out: _Out) -> None:
        keeps_reminders = self.keeps_reminders
        for index, step in enumerate(turn.steps):
            before = out.standing
            reminder = self._kept_reminder(turn, index, out) if keeps_reminders else None
            standing = before.behind(reminder) if reminder is not None else before
            extracts = extracts_of(turn, step) if step.id in out.view.extracted else NO_EXTRACTS
            made = self._step(slot, step, number, standing, out, extracts)
            if made is None:
                continue
            if reminder is not None:
                out.add(reminder)
            out.add(made)
            if keeps_reminders:
                out.standing = replace(out.standing, reminder=step.reminder)

    def _step(
        self, slot: Slot, step: Step, number: int, prefix: PrefixState, out: _Out, extracts: Mapping[str, str]
    ) -> Segment | None:
        over = out.zone is Zone.HISTORY
        with_thinking = self._thinking_of(step, prefix)
        cuts = out.view.cuts_of(step)
        instead = self._instead(step, out.view, cuts, extracts, over=over)
        cut = cut_results(step, cuts, readable=out.view.readable) if cuts and instead is None else None
        lifetime = slot.lifetime if step.calls and not over else Lifetime.SESSION
        place = SegmentPlace(out.zone, lifetime)
        made = step_segment(
            step, number, place, instead or cut, stubbed=instead is not None, with_thinking=with_thinking
        )
        if made is None:
            return None
        if cut is not None:
            out.note(step.id, "cut to fit the window: " + ", ".join(cut.call_id for cut in cuts))
        if not with_thinking and any(isinstance(part, Reasoning) for part in step.parts):
            why = f"{step.model} made it" if step.model != self.model.name else "what stood before it changed"
            out.note(step.id, f"its thinking is left out: {why}")
        return made

    def _instead(
        self, step: Step, view: RenderView, cuts: Sequence[ResultCut], extracts: Mapping[str, str], *, over: bool
    ) -> tuple[ToolResult, ...] | None:
        """The replacement of a step's results. Returns None if they are shown.

        A layout that keeps all results has stubs only for lack of room.
        """
        match self.layout.old_results:
            case OldResults.NOTICE if over:
                return notices_of(step)
            case OldResults.KEEP | OldResults.STUB | OldResults.NOTICE:
                if step.id not in view.pruned:
                    return None
                kept = view.kept if step.id not in view.emptied else frozenset()
                if all(call.name in kept for call in step.calls):
                    return None
                return stubs_of(step, kept, cuts, readable=view.readable, extracts=extracts)
            case _:
                assert_never(self.layout.old_results)

    def _kept_reminder(self, turn: Turn, index: int, out: _Out) -> Segment | None:
        """The reminder that stays before step `index`. Returns None if the one in place has the same text."""
        text = turn.steps[index].reminder
        if not text or (text == out.standing.reminder and not self.model.clears_system_messages):
            return None
        place = SegmentPlace(out.zone, Lifetime.SESSION)
        return reminder_segment(text, _reminder_id(turn, index), place, self._reminder_role(out.segments))

    def trailing_reminder(self, running: RenderedTurn, text: str) -> tuple[tuple[Segment, ...], PrefixState]:
        """The reminder after the last step. If reminders are kept, it stays only when another step follows."""
        turn, standing = running.turn, running.after
        place, role = SegmentPlace(Zone.TRAILING, Lifetime.STEP), self._reminder_role(running.segments)
        if not self.keeps_reminders:
            return (reminder_segment(text, "reminder", place, role),), standing
        if text == standing.reminder and not self.model.clears_system_messages:
            return (), standing
        made = reminder_segment(text, _reminder_id(turn, len(turn.steps)), place, role)
        return (made,), standing.behind(made)

    def _thinking_of(self, step: Step, prefix: PrefixState) -> bool:
        """Thinking is sent only to the model that made it, and only after the prefix that it was made after (rule
        *prefix*).
        """
        return step.model == self.model.name and step.made_after == prefix.durable


def unseen(attachment: Attachment, model: ModelFacts) -> str:
    """The note about a picture in the window of a model without vision."""
    return f"“{attachment.title}” is not shown: {model.name} sees no pictures"


def _reminder_id(turn: Turn, index: int) -> str:
    """The id of the reminder that stays before step `index` of a turn."""
    return f"{turn.id}/reminder{index}"
