"""How the results of tool calls stand in the window: whole, cut, or replaced once they are old (SPEC O9, L8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from lamella.context.extracts import extract
from lamella.core.counting import count_tokens
from lamella.core.json import decode_arguments, encode_text
from lamella.core.messages import Step, ToolCall, ToolResult, Turn
from lamella.core.prompt import ToolSpec

INTERRUPTED = "This call was interrupted; it has no result."
NO_LONGER_THERE = "The result of this call is no longer available. Call the tool again if it is needed."
"""What stands for every tool result of an earlier turn in layout `onyx` (SPEC O9)."""

EXPANDED = "expanded_queries"
"""The argument under which a call shows every query that ran, where that was more than the model asked for."""

READ_MESSAGE = "read_message"
"""The tool that gives a result whole again, by the id of its call."""

NO_EXTRACTS: Mapping[str, str] = MappingProxyType({})

LEAST_CUT = 64
"""Tokens that a cut result keeps even where there is no room: less would say nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Cut:
    """How much of a call's result is shown: `head` characters of its beginning and `tail` of its end."""

    call_id: str
    head: int
    tail: int

    @property
    def outcome(self) -> str:
        """The outcome of the decision: `HEAD:TAIL`."""
        return f"{self.head}:{self.tail}"


def cut_text(content: str, cut: Cut, *, readable: bool = False) -> str:
    """Head and tail of a result, under a line that says what is missing and how to get it."""
    missing = len(content) - cut.head - cut.tail
    if missing <= 0:
        return content
    way = f"{READ_MESSAGE} {cut.call_id} gives" if readable else "Call the tool again for less to see"
    notice = f"[Cut to fit the window: {missing} of {len(content)} characters are left out in the middle. {way} them.]"
    tail = content[len(content) - cut.tail :]
    return f"{notice}\n{content[: cut.head]}\n[…]\n{tail}"


def cut_to(result: ToolResult, tokens: int, *, readable: bool = False) -> Cut:
    """The cut of a result to about `tokens` local tokens, two thirds of them from its beginning, never more."""
    content = result.content
    size = max(count_tokens(content), 1)
    keep = len(content)
    while keep > 0:
        keep = min(keep - 1, keep * tokens // size) if size > tokens else keep - 1
        cut = Cut(result.call_id, keep * 2 // 3, keep - keep * 2 // 3)
        size = count_tokens(cut_text(content, cut, readable=readable))
        if size <= tokens:
            return cut
        if keep <= tokens // 4:
            break
    return Cut(result.call_id, 0, 0)


def results_of(step: Step) -> tuple[ToolResult, ...]:
    """Exactly one result for each call, in the order of the calls; a missing one reads "interrupted" (law 5)."""
    given = {result.call_id: result for result in step.results}
    return tuple(given.get(call.id) or _interrupted(call) for call in step.calls)


def _interrupted(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, INTERRUPTED, is_error=True)


def cut_results(step: Step, cuts: Iterable[Cut], *, readable: bool = False) -> tuple[ToolResult, ...]:
    """The results of a step, those of `cuts` cut."""
    by_call = {cut.call_id: cut for cut in cuts}
    return tuple(
        replace(result, content=cut_text(result.content, by_call[result.call_id], readable=readable))
        if result.call_id in by_call
        else result
        for result in results_of(step)
    )


def kept_names(tools: Iterable[ToolSpec]) -> frozenset[str]:
    """The tools whose results stay in the window until a compaction (SPEC L9)."""
    return frozenset(tool.name for tool in tools if tool.when_old == "summarize")


def can_be_read(tools: Iterable[ToolSpec]) -> bool:
    """Whether the model has the tool that gives back what is left out."""
    return any(tool.name == READ_MESSAGE for tool in tools)


def extracts_of(turn: Turn, step: Step) -> Mapping[str, str]:
    """What the stubs of a step's results keep of them, by call: nothing where a digest stands."""
    later = turn.steps[turn.steps.index(step) + 1 :]
    before = "\n".join([turn.user.text, *(call.arguments for call in step.calls)])
    after = "\n".join(text for one in later for text in (one.text, *(call.arguments for call in one.calls)))
    results = (result for result in step.results if not result.digest)
    return {result.call_id: extract(result.content, before, after) for result in results}


def stubs_of(
    step: Step,
    kept: Collection[str] = (),
    cuts: Iterable[Cut] = (),
    *,
    readable: bool = False,
    extracts: Mapping[str, str] = NO_EXTRACTS,
) -> tuple[ToolResult, ...]:
    """Each result as its digest, or as the bare name of its function; call id, name and arguments stay (SPEC L8).

    Those of the tools `kept` are shown, cut where they are. Where the model can read them again (`readable`) a stub
    names the id to do it by, and with `extracts` it keeps that of its result: `search [read_message ID], in part: …`. A
    result that is no longer than such a stub stays.
    """
    stubs = _instead(step, None)
    if readable or extracts:
        given = {result.call_id: result for result in step.results}
        stubs = tuple(_told(stub, given.get(stub.call_id), extracts, readable=readable) for stub in stubs)
    if not kept:
        return stubs
    shown = cut_results(step, cuts, readable=readable)
    return tuple(one if one.name in kept else stub for one, stub in zip(shown, stubs, strict=True))


def _told(stub: ToolResult, given: ToolResult | None, extracts: Mapping[str, str], *, readable: bool) -> ToolResult:
    """A stub that says more than its name. What was read by `read_message` is named by its call already."""
    kept = extracts.get(stub.call_id, "")
    named = f" [{READ_MESSAGE} {stub.call_id}]" if readable and stub.name != READ_MESSAGE else ""
    if given is None or not (named or kept):
        return stub
    text = f"{stub.content}{named}{f', in part: {kept}' if kept else ''}"
    return given if count_tokens(given.content) <= count_tokens(text) else replace(stub, content=text)


def notices_of(step: Step) -> tuple[ToolResult, ...]:
    """Each result as its digest, or as the fixed string (SPEC O9)."""
    return _instead(step, NO_LONGER_THERE)


def _instead(step: Step, text: str | None) -> tuple[ToolResult, ...]:
    """A call without a result has none to replace: it stays interrupted, however old."""
    given = {result.call_id: result for result in step.results}
    return tuple(
        ToolResult(call.id, call.name, given[call.id].digest or text or call.name)
        if call.id in given
        else _interrupted(call)
        for call in step.calls
    )


def expanded(call: ToolCall, step: Step) -> ToolCall:
    """The call with every query that ran for it, from the first request that shows its result (SPEC O9)."""
    queries = next((result.queries for result in step.results if result.call_id == call.id), ())
    if not queries:
        return call
    arguments = decode_arguments(call.arguments) | {EXPANDED: list(queries)}
    return replace(call, arguments=encode_text(arguments))
