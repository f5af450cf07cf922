"""Whether a message can be answered: seen before anything of it is stored, so that a compaction can come first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.agent.calibration import count, is_near, margin_of
from lamella.context.assemble import Assembled, assemble
from lamella.core.counting import aside
from lamella.core.errors import ContextLengthExceeded, NeedsCompaction
from lamella.core.messages import Turn
from lamella.engine.opening import Opening, first_context
from lamella.engine.services import Services


@dataclass(frozen=True, slots=True)
class Admitted:
    """An opening, with what its provider counted where that was asked: its first window, or why there is none."""

    opening: Opening
    assembled: Assembled | None = None
    refusal: ContextLengthExceeded | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """Looks whether the first request of a turn fits the window of each of its models."""

    services: Services
    reminders: Sequence[str]

    async def of(self, openings: Sequence[Opening], turn: Turn, *, can_compact: bool) -> list[Admitted]:
        """Which of the models can answer; raises the first reason when none of them can.

        Nothing is compacted for one model while another can answer. A request near the limit is counted by its
        provider, so that one that is over it is compacted first (SPEC L6).
        """
        found = [await self._admitted(opening, turn, can_compact=can_compact) for opening in openings]
        if found[0].refusal is not None and all(one.refusal for one in found):
            raise found[0].refusal
        return [
            await self._looked_at(one.opening, turn, can_compact=False)
            if isinstance(one.refusal, NeedsCompaction)
            else one
            for one in found
        ]

    async def _admitted(self, opening: Opening, turn: Turn, *, can_compact: bool) -> Admitted:
        seen = await self._looked_at(opening, turn, can_compact=can_compact)
        if seen.assembled is None:
            return seen
        run, prompt = opening.run, seen.assembled.prompt
        margin = await asyncio.to_thread(margin_of, seen.assembled, run.billed_local)
        if not is_near(seen.assembled.report, margin):
            return seen
        wired = run.model.wire(prompt, opening.line.wired if opening.line else None)
        counted = await count(run.model, run.model.request(prompt, wired.blocks, ()), seen.assembled.report.local)
        if counted is None:
            opening = replace(opening, run=replace(run, counts=False, margin=margin))
            return await self._looked_at(opening, turn, can_compact=can_compact)
        opening = replace(opening, run=run.with_count(counted, seen.assembled.report.estimate))
        return await self._looked_at(opening, turn, can_compact=can_compact)

    async def _looked_at(self, opening: Opening, turn: Turn, *, can_compact: bool) -> Admitted:
        return await aside(len(opening.found.path), self._seen, opening, turn, can_compact=can_compact)

    def _seen(self, opening: Opening, turn: Turn, *, can_compact: bool) -> Admitted:
        context = first_context(opening, turn, self.services.registry, self.reminders)
        context = replace(context, can_compact=can_compact)
        try:
            assembled = assemble(context, opening.setting.layout, opening.line.assembled if opening.line else None)
        except ContextLengthExceeded as error:
            return Admitted(opening, refusal=error)
        return Admitted(opening, assembled)
