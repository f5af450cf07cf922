"""Calls that are handed to the caller of a request, and the turns that go on with their results.

A caller may bring tools of its own. A call of one ends the run: it has no result, and its step has the stop reason
`tool_calls`. The caller's next request brings the results, as a stored turn of its own that follows the answer:

    turn_1  "What is on my disk?"  ─▶ call list_files          (pending)
    turn_2  results: list_files    ─▶ call read_file           (continues turn_1; pending)
    turn_3  results: read_file     ─▶ "A letter to Ann."       (continues turn_1)

`folded` makes one `Turn` of these three, so the window, pruning and compaction see a turn whose tools ran here. Results
that come with a text belong to the step before, and the text begins a turn. A call whose results never came gets a
fixed sentence in the window (`context.results`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lamella.core.counting import count_tokens
from lamella.core.errors import InvalidRequest
from lamella.core.messages import Step, StopReason, ToolCall, ToolResult, Turn


def pending(steps: Sequence[Step]) -> tuple[ToolCall, ...]:
    """The calls of the last step that wait for their caller."""
    if not steps or steps[-1].stop_reason is not StopReason.TOOL_CALLS:
        return ()
    given = {result.call_id for result in steps[-1].results}
    return tuple(call for call in steps[-1].calls if call.id not in given)


def answered(steps: Sequence[Step], results: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """The results of all pending calls, in the order of the calls, each with the name of its tool.

    Raises `InvalidRequest`, in the words of OpenAI's API, if a call has no result or two, or a result no call.
    """
    waiting = pending(steps)
    given = {result.call_id: result for result in results}
    if len(given) < len(results):
        twice = next(one.call_id for n, one in enumerate(results) if one.call_id in {r.call_id for r in results[:n]})
        raise InvalidRequest(f"Two tool outputs found for function call {twice}.", hint="Send one.", param="input")
    if unknown := sorted(given.keys() - {call.id for call in waiting}):
        raise InvalidRequest(
            f"No tool call found for function call output with call_id {unknown[0]}.",
            hint="Send the outputs of the calls that the response before has handed out, and name that response.",
            param="input",
        )
    missing = next((call.id for call in waiting if call.id not in given), None)
    if missing is not None:
        raise InvalidRequest(
            f"No tool output found for function call {missing}.",
            hint="Send an output for each call of the response before, or a message without outputs.",
            param="input",
        )
    return tuple(replace(given[call.id], name=call.name) for call in waiting)


def with_results(turn: Turn, results: Sequence[ToolResult]) -> Turn:
    """The turn with the results of its last step's pending calls."""
    if not turn.steps:
        return turn
    *before, last = turn.steps
    known = {result.call_id: result for result in (*last.results, *results)}
    ordered = tuple(known[call.id] for call in last.calls if call.id in known)
    tokens = last.tokens + sum(count_tokens(result.content) for result in results)
    return replace(turn, steps=(*before, replace(last, results=ordered, tokens=tokens)))


def continued(turn: Turn, newer: Turn) -> Turn:
    """The turn with the steps of a stored one that continues it, whose results it has already."""
    user = turn.user if newer.user.tools is None else replace(turn.user, tools=newer.user.tools)
    return Turn(turn.id, user, (*turn.steps, *newer.steps), newer.status, newer.ends_with)


def folded(stored: Iterable[Turn]) -> tuple[Turn, ...]:
    """The turns of a path as they are seen by the window: those that continue another are a part of it."""
    made: list[Turn] = []
    for turn in stored:
        if made and turn.user.results:
            made[-1] = with_results(made[-1], turn.user.results)
        if made and turn.user.continues:
            made[-1] = continued(made[-1], turn)
        else:
            made.append(turn)
    return tuple(made)
