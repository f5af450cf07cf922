"""Renders the turns of a path by a layout's slots, each the same way whether it runs or is long over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from lamella.context.documents import key_of
from lamella.context.layout import Layout, OldResults, Slot
from lamella.context.segments import (
    dynamic_segment,
    files_segment,
    notices_of,
    reminder_segment,
    step_segment,
    stubs_of,
    user_segment,
)
from lamella.core.json import digest
from lamella.core.messages import Step, ToolResult, Turn
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Lifetime, Segment, Zone


@dataclass(frozen=True, slots=True)
class Standing:
    """What a turn's rendering depends on besides the turn: everything before it, as a fingerprint.

    `durable` chains the digests of all segments that stay; `reminder` is what the last step was sent with, where
    reminders stay in place; `dynamic` the dynamic context that was sent last, where it does.
    """

    durable: str
    reminder: str = ""
    dynamic: str = ""

    def behind(self, segment: Segment) -> Standing:
        """The standing after `segment`."""
        return Standing(digest(self.durable.encode(), segment.digest.encode()), self.reminder, self.dynamic)


@dataclass(frozen=True, slots=True)
class View:
    """How a request looks at the path: which files are only listed, and which steps' results are stubs."""

    listed: frozenset[str] = frozenset()
    pruned: frozenset[str] = frozenset()

    def of(self, turn: Turn) -> View:
        """What of the view concerns one turn."""
        if not self.listed and not self.pruned:
            return WHOLE
        files = frozenset(key_of(attachment) for attachment in turn.user.attachments)
        return View(self.listed & files, self.pruned & frozenset(step.id for step in turn.steps))


WHOLE = View()
"""Every file included, every result shown."""


@dataclass(frozen=True, slots=True)
class RenderedTurn:
    """A turn as segments, with what it was made from, so that an equal one need not be made again."""

    turn: Turn
    zone: Zone
    view: View
    before: Standing
    segments: tuple[Segment, ...]
    after: Standing


class _Out:
    """The segments of one turn as they are made, and the standing behind the last."""

    __slots__ = ("segments", "standing", "zone")

    def __init__(self, zone: Zone, standing: Standing) -> None:
        self.zone = zone
        self.standing = standing
        self.segments: list[Segment] = []

    def add(self, segment: Segment) -> None:
        """Append a segment that stays."""
        self.segments.append(segment)
        self.standing = self.standing.behind(segment)

    def pass_by(self, segment: Segment) -> None:
        """Append a segment that will be gone: nothing that stays is counted as made behind it."""
        self.segments.append(segment)


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders turns for one layout and model. `moving` are the segments that travel with the running turn."""

    layout: Layout
    model: ModelFacts

    @property
    def keeps_reminders(self) -> bool:
        """Whether reminders stay where they were sent, because this model's thinking is bound to them."""
        return self.model.binds_thinking and any(slot.keep_for_bound_thinking for slot in self.layout.slots)

    def turn(
        self,
        turn: Turn,
        number: int,
        view: View,
        before: Standing,
        zone: Zone,
        moving: Mapping[Kind, Segment] | None = None,
    ) -> RenderedTurn:
        """The segments of a turn, by the layout's slots; `zone` is where they stand in this request."""
        own = view.of(turn)
        out = _Out(zone, before)
        for slot in self.layout.slots:
            if slot.zone is Zone.TRAVELLING and moving and slot.kind in moving:
                out.pass_by(moving[slot.kind])
            elif slot.zone is Zone.TURN:
                self._fill(slot, turn, number, own, out)
        return RenderedTurn(turn, zone, own, before, tuple(out.segments), out.standing)

    def _fill(self, slot: Slot, turn: Turn, number: int, view: View, out: _Out) -> None:
        match slot.kind:
            case Kind.FILES if turn.user.attachments:
                out.add(files_segment(turn, view.listed, out.zone))
            case Kind.FILES:
                pass
            case Kind.USER:
                out.add(user_segment(turn, number, out.zone))
            case Kind.DYNAMIC:
                self._keep_dynamic(slot, turn, out)
            case Kind.STEP:
                self._steps(slot, turn, number, view, out)
            case _:
                raise ValueError(f"a layout can't put {slot.kind} into zone {slot.zone}")

    def _keep_dynamic(self, slot: Slot, turn: Turn, out: _Out) -> None:
        """Dynamic context that stays where it was sent: sent again only when it changed."""
        text = turn.user.dynamic
        if not text or (slot.when_changed and text == out.standing.dynamic):
            return
        out.add(dynamic_segment(turn, out.zone, slot.lifetime))
        out.standing = replace(out.standing, dynamic=text)

    def _steps(self, slot: Slot, turn: Turn, number: int, view: View, out: _Out) -> None:
        over, keeps_reminders = out.zone is Zone.HISTORY, self.keeps_reminders
        for index, step in enumerate(turn.steps):
            if keeps_reminders:
                self._keep_reminder(turn, index, step.reminder, out)
            made = step_segment(
                step,
                number,
                out.zone,
                self._instead(step, pruned=step.id in view.pruned) if over else None,
                with_thinking=self._thinking_of(step, out.standing),
                lifetime=slot.lifetime if step.calls and not over else Lifetime.SESSION,
            )
            if made is not None:
                out.add(made)

    def _instead(self, step: Step, *, pruned: bool) -> tuple[ToolResult, ...] | None:
        """What this layout shows instead of the results of an earlier turn; None where it shows them."""
        match self.layout.old_results:
            case OldResults.KEEP:
                return None
            case OldResults.NOTICE:
                return notices_of(step)
            case OldResults.STUB:
                return stubs_of(step) if pruned else None
            case _:
                assert_never(self.layout.old_results)

    def _keep_reminder(self, turn: Turn, index: int, text: str, out: _Out) -> None:
        """Put a reminder that stays before step `index`, unless the step before it was sent with the same one."""
        if text == out.standing.reminder:
            return
        if text:
            out.add(reminder_segment(text, _reminder_id(turn, index), out.zone, Lifetime.SESSION))
        out.standing = replace(out.standing, reminder=text)

    def trailing_reminder(self, turn: Turn, text: str, standing: Standing) -> tuple[tuple[Segment, ...], Standing]:
        """The reminder behind the last step. Where reminders are kept, only a step that follows makes it stay."""
        if not self.keeps_reminders:
            return (reminder_segment(text, "reminder", Zone.TRAILING, Lifetime.STEP),), standing
        if text == standing.reminder:
            return (), standing
        made = reminder_segment(text, _reminder_id(turn, len(turn.steps)), Zone.TRAILING, Lifetime.STEP)
        return (made,), standing.behind(made)

    def _thinking_of(self, step: Step, standing: Standing) -> bool:
        """Thinking goes only to the model that made it, and only behind what it was made after (law 5)."""
        return step.model == self.model.name and step.made_after == standing.durable


def _reminder_id(turn: Turn, index: int) -> str:
    """The id of the reminder that stays before step `index` of a turn."""
    return f"{turn.id}/reminder{index}"


def pruned_steps(path: tuple[Turn, ...], boundary: str | None) -> frozenset[str]:
    """The ids of the steps up to the prune boundary, wherever it lies on the path; none when it lies elsewhere."""
    if boundary is None:
        return frozenset()
    ids = [step.id for turn in path for step in turn.steps]
    return frozenset(ids[: ids.index(boundary) + 1]) if boundary in ids else frozenset()
