"""What gives way if a window is too large, in the order of the rule *fit*. Each stage is a stored decision.

old tool results → this turn's, if thinking is bound to them and the newest would have no room → this step's results,
cut → compaction, if available → results that their tools keep until then → documents listed instead of included → the
oldest turns, then the oldest summaries
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lamella.context.choices import (
    ALL,
    LEFT_OUT,
    LISTED,
    KnownDecisions,
    LeftOut,
    choices_of,
    is_readable,
    most_of,
    project_content,
    pruned_steps,
    subject_of,
    usable,
)
from lamella.context.documents import content_tokens, key_of
from lamella.context.input import ContextInput
from lamella.context.layout import Layout, OldResults
from lamella.context.render import RenderedTurn
from lamella.context.results import (
    LEAST_CUT,
    ResultCut,
    cut_results,
    cut_to,
    kept_names,
    notices_of,
    said_tokens,
    stubs_of,
)
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import NeedsCompaction
from lamella.core.messages import Attachment, Reasoning, Step, ToolResult
from lamella.core.prompt import Kind

NOTHING: Mapping[str, float] = {}

LEAST_ROOM = 0.1
"""The share of the window that the newest results need before results with bound thinking give way."""

BOUND_SHARE = 0.5
"""The share of the window that such results free at once: each time, the thinking after them is lost."""

ROOM_AT_ONCE = 0.2
"""The share of the window that is freed beyond the need when turns leave, so that the next messages change nothing."""

SLACK = 0.05
"""The share of the window that is freed beyond the need, so that the next step does not change the window again."""


@dataclass(frozen=True, slots=True)
class SpaceNeed:
    """The need of a window, in local tokens: `over` is the excess (negative: free room), `files` the size of this
    turn's new files. A file that would not fit an empty window is listed and not counted.
    """

    over: int
    files: int

    @property
    def total(self) -> int:
        """The tokens to free so that everything fits."""
        return self.over + self.files


Stage = Callable[[ContextInput, Layout, SpaceNeed], tuple[Decision, ...]]
"""A stage: returns decisions that free room, if it can."""


def need_of(context: ContextInput, local: int) -> SpaceNeed:
    """The need of a window of `local` tokens."""
    limit = usable(context)
    known = KnownDecisions(context.model.name, context.decisions)
    new = [a for a in context.turn.user.files if a.text is not None and known.of_document(a) is None]
    return SpaceNeed(local - limit, sum(a.tokens for a in new if a.tokens <= limit))


def stub_old_results(context: ContextInput, layout: Layout, need: SpaceNeed) -> tuple[Decision, ...]:
    """Move the prune boundary until enough results are stubs; for a new file only if that makes it fit.

    Results of the running turn's earlier steps come last, and only if no thinking is bound to them.
    """
    if context.keeps_results:
        return ()
    kept = kept_names(context.tools)
    old = [step for step in _stubbable(context, layout) if any(r.name not in kept for r in step.results)]
    return _stubbed(context, layout, old, need, kept)


def stub_bound_results(context: ContextInput, layout: Layout, need: SpaceNeed) -> tuple[Decision, ...]:
    """Replace results of the running turn by stubs although thinking is bound to them, if the newest results have no
    room.

    The thinking after the first stub is dropped too, since the provider would refuse it. So this waits until there is
    almost no room, and then frees much at once.
    """
    if context.keeps_results or need.over <= 0 or not _binds(context):
        return ()
    newest = sum(_shown_sizes(context, layout).values())
    room = newest - need.over - _slack(context)
    if room >= min(newest, int(usable(context) * LEAST_ROOM)):
        return ()
    kept = kept_names(context.tools)
    old = [step for step in _stubbable(context, layout, bound=True) if any(r.name not in kept for r in step.results)]
    much = max(need.over, int(usable(context) * BOUND_SHARE))
    return _stubbed(context, layout, old, SpaceNeed(much, 0), kept)


def _stubbed(
    context: ContextInput,
    layout: Layout,
    old: Sequence[Step],
    need: SpaceNeed,
    kept: Collection[str],
    numbers: Mapping[str, float] = NOTHING,
) -> tuple[Decision, ...]:
    """Stubs in the steps `old`, as many as are needed; the tools `kept` show their results still."""
    cuts = KnownDecisions(context.model.name, context.decisions).cuts
    readable = is_readable(context, layout)
    savings = [_saving(step, cuts, kept, readable=readable) for step in old]
    if not any(savings) or (need.over <= 0 and sum(savings) < need.total):
        return ()
    freed, last = 0, 0
    wanted = need.total + _slack(context)
    while last < len(old) and freed < wanted:
        freed += savings[last]
        last += 1
    why = f"the window of {context.model.name} is full: the results of {last} earlier calls are left out"
    return (
        Decision(
            DecisionKind.PRUNE,
            context.turn.id,
            old[last - 1].id,
            "engine",
            why,
            {"tokens": freed, "needed": need.total, **numbers},
            first_changed=old[0].id,
        ),
    )


def empty_old_results(context: ContextInput, layout: Layout, need: SpaceNeed) -> tuple[Decision, ...]:
    """Replace even results that should stay until a compaction, in the running turn too: there was no compaction, or it
    did not help.
    """
    kept = kept_names(context.tools)
    if need.over <= 0 or not (kept or context.keeps_results):
        return ()
    return _stubbed(context, layout, list(_stubbable(context, layout, kept_too=True, bound=True)), need, (), {ALL: 1})


def _stubbable(context: ContextInput, layout: Layout, *, kept_too: bool = False, bound: bool = False) -> Iterator[Step]:
    """The steps after the boundary with results that may give way, oldest first.

    `bound` includes steps of the running turn that thinking is bound to.
    """
    known, path = KnownDecisions(context.model.name, context.decisions), (*context.history, context.turn)
    boundary = known.emptied(path) if kept_too else known.boundary(path)
    history = () if layout.old_results is OldResults.NOTICE else context.history
    steps = [step for turn in history for step in turn.steps]
    if bound or not _binds(context):
        steps += context.turn.steps[:-1]
    ids = [step.id for step in steps]
    start = ids.index(boundary) + 1 if boundary in ids else 0
    return (step for step in steps[start:] if step.results)


def _binds(context: ContextInput) -> bool:
    """Whether a model refuses the running turn once a result in it changed."""
    parts = (part for step in context.turn.steps for part in step.parts)
    return context.model.binds_thinking and any(isinstance(part, Reasoning) for part in parts)


def _slack(context: ContextInput) -> int:
    return int(usable(context) * SLACK)


def _saving(step: Step, cuts: Collection[ResultCut], kept: Collection[str], *, readable: bool) -> int:
    """The tokens that a step's stubs save compared with its results as shown."""
    shown, stubs = cut_results(step, cuts, readable=readable), stubs_of(step, kept, cuts, readable=readable)
    return max(_size(shown) - _size(stubs), 0)


def _size(results: Sequence[ToolResult]) -> int:
    return sum(count_tokens(result.content) for result in results)


def cut_new_results(context: ContextInput, layout: Layout, need: SpaceNeed) -> tuple[Decision, ...]:
    """Cut the results of the newest step to the free room, the largest first, keeping head and tail.

    No answer used them yet. Those of a request that the provider refused as too large may be cut again. Small ones stay
    whole; no result is cut below `LEAST_CUT` tokens.
    """
    results = context.turn.steps[-1].results if need.over > 0 and context.turn.steps else ()
    sizes = _shown_sizes(context, layout)
    room = sum(sizes.values()) - need.over - _slack(context)
    share = max(_share(sorted(sizes.values()), room), LEAST_CUT)
    large = [result for result in results if sizes[result.call_id] > share]
    return tuple(_cut(context, layout, result, sizes[result.call_id], share) for result in large)


def _shown_sizes(context: ContextInput, layout: Layout) -> dict[str, int]:
    """The tokens of the newest step's results, as they are shown: cut already, or whole."""
    if not context.turn.steps:
        return {}
    cuts = KnownDecisions(context.model.name, context.decisions).cuts
    shown = cut_results(context.turn.steps[-1], cuts, readable=is_readable(context, layout))
    return {result.call_id: count_tokens(result.content) for result in shown}


def _share(sizes: Sequence[int], room: int) -> int:
    """The largest equal share with which all sizes fit; small ones leave room for larger ones."""
    for index, size in enumerate(sizes):
        left = len(sizes) - index
        if size * left > room:
            return room // left
        room -= size
    return max(sizes, default=0)


def _cut(context: ContextInput, layout: Layout, result: ToolResult, size: int, share: int) -> Decision:
    cut = cut_to(result, share, readable=is_readable(context, layout))
    why = f"the result of {result.name} has about {size} tokens; {share} are free for it, so its middle is left out"
    subject = subject_of(result.call_id, context.model.name)
    return Decision(DecisionKind.CUT, subject, cut.outcome, "engine", why, {"tokens": size, "room": share})


def ask_for_compaction(context: ContextInput, layout: Layout, need: SpaceNeed) -> tuple[Decision, ...]:
    """Raises `NeedsCompaction` if the engine can compact and the earlier turns are large enough to help.

    They must make room for their summary too, which may take as much as is freed beyond the need.
    """
    if not context.can_compact:
        return ()
    freed, wanted = 0, need.total + _slack(context)
    known = KnownDecisions(context.model.name, context.decisions)
    path, readable = (*context.history, context.turn), is_readable(context, layout)
    stubs, emptied = pruned_steps(path, known.boundary(path)), pruned_steps(path, known.emptied(path))
    for turn in context.history:
        freed += turn.user.tokens
        for step in turn.steps:
            kept = kept_names(context.tools) if step.id not in emptied else frozenset()
            freed += said_tokens(step) + _size(
                _shown(step, layout, known.cuts, kept, old=step.id in stubs, readable=readable)
            )
        if freed >= wanted:
            raise NeedsCompaction(
                "This conversation no longer fits the window.",
                hint="Its earlier turns are summarised first.",
                cut=turn.id,
            )
    return ()


def _shown(
    step: Step, layout: Layout, cuts: Collection[ResultCut], kept: Collection[str], *, old: bool, readable: bool
) -> Sequence[ToolResult]:
    """The results of an earlier turn's step as the window shows them: stubs, cut, or whole."""
    if layout.old_results is OldResults.NOTICE:
        return notices_of(step)
    return stubs_of(step, kept, cuts, readable=readable) if old else cut_results(step, cuts, readable=readable)


def list_documents(context: ContextInput, layout: Layout, need: SpaceNeed) -> tuple[Decision, ...]:
    """Show documents by name, id and size instead of their text: older files, the project's, this turn's."""
    if need.over <= 0:
        return ()
    over = need.over + _slack(context)
    made: list[Decision] = []
    for attachment, segment in _included(context, layout):
        if over <= 0:
            break
        way = "and can be read piece by piece" if attachment.image is None else "by its name alone"
        why = f"the window of {context.model.name} is full: “{attachment.title}” is listed from here on {way}"
        subject = subject_of(key_of(attachment), context.model.name)
        tokens = content_tokens(attachment, context.model)
        numbers = {"tokens": tokens}
        made.append(Decision(DecisionKind.ADMISSION, subject, LISTED, "engine", why, numbers, first_changed=segment))
        over -= tokens
    return tuple(made)


def _included(context: ContextInput, layout: Layout) -> Iterator[tuple[Attachment, str]]:
    """Every included document that could be listed, with its segment, in the order of giving way."""
    listed = choices_of(context, project_is_fixed=layout.is_fixed(Kind.PROJECT)).listed
    found = [(a, f"{turn.id}/files") for turn in context.history for a in turn.user.files if a.text is not None]
    if context.project is not None:
        found += [(file, context.project.id) for file in project_content(context)]
    found += [(a, f"{context.turn.id}/files") for a in context.turn.user.files if a.text is not None]
    return ((attachment, segment) for attachment, segment in found if key_of(attachment) not in listed)


def leave_out(
    context: ContextInput, shown: Sequence[RenderedTurn], over: int, *, behind_summaries: bool
) -> tuple[Decision, ...]:
    """Remove the oldest turns from the window, then the oldest summaries, until `over` local tokens and some slack are
    free.

    `shown` are the finished turns in the window. If they do not follow directly after the summaries
    (`behind_summaries`), the line about what left is the first change. Nothing is lost: it stays stored, search finds
    it, and the next compaction summarises it.
    """
    before = KnownDecisions(context.model.name, context.decisions).left_out(
        context.history, context.summaries
    ) or LeftOut(0, 0, 0)
    summaries = context.summaries[before.summaries :]
    sizes = [sum(segment.tokens for segment in turn.segments) for turn in shown]
    turns = _first(sizes, over + int(usable(context) * ROOM_AT_ONCE))
    freed = sum(sizes[:turns])
    cut = _first([summary.tokens for summary in summaries], over - freed)
    if not turns and not cut:
        return ()
    now = LeftOut(before.turns + turns, before.summaries + cut, most_of(context))
    last = context.history[now.turns - 1].id if now.turns else context.summaries[now.summaries - 1].id
    first = shown[0].segments[0].id if turns and behind_summaries else LEFT_OUT
    if cut:
        first = summaries[0].id
    elif before.turns or before.summaries:
        first = LEFT_OUT
    what = f"the oldest {now.turns} messages with their answers" + (
        f", {now.summaries} summaries" * bool(now.summaries)
    )
    why = f"the window of {context.model.name} has no room for all of this conversation: {what} are left out of it"
    numbers = {"turns": now.turns, "summaries": now.summaries, "tokens": freed, "budget": now.budget}
    return (Decision(DecisionKind.LEFT_OUT, context.model.name, last, "engine", why, numbers, first_changed=first),)


def _first(sizes: Sequence[int], wanted: int) -> int:
    """The number of first elements of `sizes` that free `wanted`; all if that is not enough."""
    freed = 0
    for number, size in enumerate(sizes):
        if freed >= wanted:
            return number
        freed += size
    return len(sizes)


STAGES: tuple[Stage, ...] = (
    stub_old_results,
    stub_bound_results,
    cut_new_results,
    ask_for_compaction,
    empty_old_results,
    list_documents,
)
"""The stages in order. If they free too little, the assembly raises an error."""
