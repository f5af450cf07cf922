"""Runs the calls of one step together. Every outcome becomes a result for the model.

If a result is long, the model sees its beginning, and the whole is stored as a document that `read_file` can read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec
import structlog

from lamella.core.errors import LamellaError, ToolFailed
from lamella.core.json import JsonObject, decode_arguments
from lamella.core.knowledge import bases_of
from lamella.core.messages import ToolCall, ToolResult
from lamella.core.records import FoundDocument
from lamella.tooling.arguments import fitted
from lamella.tooling.tool import Invocation, Registry, Tool, ToolOutput, ToolScope, needs_approval

log = structlog.get_logger()

MAX_SHOWN = 120_000
"""Characters of a result that the model sees at most."""

MAX_KEPT = 2_000_000
"""Maximum characters stored of one result."""

_NOTICE = 400
"""Characters of `MAX_SHOWN` reserved for the note about what is missing."""


async def keep_rest(result: ToolResult, scope: ToolScope) -> ToolResult:
    """The result, cut if it is too long, with a first line that says how to read on."""
    content = result.content
    if len(content) <= MAX_SHOWN:
        return result
    shown = content[: MAX_SHOWN - _NOTICE]
    size = f"The first {len(shown)} of {len(content)} characters are shown"
    how = await _keep(result, scope)
    return replace(result, content=f"[{size}. {how}]\n{shown}")


async def _keep(result: ToolResult, scope: ToolScope) -> str:
    if scope.documents is None:
        return "Call the tool again for less to see the rest."
    content = result.content[:MAX_KEPT]
    title, size = f"Result of {result.name}", len(result.content.encode())
    found = FoundDocument(title, "text/plain", content, size, made_from=tuple(bases_of(result)))
    try:
        document = await scope.documents.keep(found)
    except LamellaError as error:
        log.warning("the rest of a tool's result is not kept", call_id=result.call_id, error=error.message)
        return "The rest could not be kept: call the tool again for less to see it."
    lost = "" if len(content) == len(result.content) else f", of which the first {len(content)} are kept"
    return (
        f"The whole is document {document.document}{lost}: read on with read_file, file_id {document.file_id}, "
        "by offset or query."
    )


GRACE = 0.5
"""Seconds that a cancelled call has to clean up. Then it is abandoned."""

_DENIED = "It did not run. Do not call it again in the same way."

MAX_NAMES = 40
"""Tools that an answer to a call of an unknown one lists."""


class _Watch:
    """How long a call has run."""

    def __init__(self) -> None:
        self._since: float | None = None

    def start(self) -> None:
        self._since = asyncio.get_running_loop().time()

    def seconds(self) -> float | None:
        """None if it was not started."""
        return None if self._since is None else asyncio.get_running_loop().time() - self._since


class ToolRunner:
    """Runs calls against a registry, each with its own time limit."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def run(
        self,
        calls: Sequence[ToolCall],
        scope: ToolScope,
        malformed: Mapping[str, str],
        done: Callable[[ToolResult, float | None], None],
    ) -> tuple[ToolResult, ...]:
        """One result for each call, in call order. `done` is called with each as it arrives, with its seconds.

        A call that did not run has none. Waiting for the user does not count.

        `malformed` maps calls whose arguments were not a JSON object to what the model wrote.
        """

        async def one(call: ToolCall) -> ToolResult:
            watch = _Watch()
            result = await self._one(call, scope, malformed.get(call.id), watch)
            done(result, watch.seconds())
            return result

        return tuple(await asyncio.gather(*(one(call) for call in calls)))

    async def _one(self, call: ToolCall, scope: ToolScope, malformed: str | None, watch: _Watch) -> ToolResult:
        try:
            tool, invocation = self._checked(call, malformed)
            if needs_approval(tool):
                await _approved(tool, scope, invocation)
            watch.start()
            return await keep_rest(_result(call, await _within(tool, scope, invocation)), scope)
        except (ToolFailed, msgspec.ValidationError) as error:
            hint = f" {error.hint}" if isinstance(error, LamellaError) and error.hint else ""
            return _failed(call, _unicode(f"{error}{hint}"))
        except Exception:  # the border where a tool's failure becomes a value for the model and a log line for us
            log.exception("tool failed", tool=call.name, call_id=call.id)
            return _failed(call, f"{call.name} failed.")

    def _checked(self, call: ToolCall, malformed: str | None) -> tuple[Tool, Invocation]:
        """The tool of a call and its arguments. Raises `ToolFailed` if the call is invalid."""
        tool = self._registry.find(call.name)
        if tool is None:
            raise ToolFailed(self._no_tool(call.name))
        if malformed is not None:
            raise ToolFailed(f"The arguments are not a JSON object: {malformed[:200]}")
        arguments: JsonObject = decode_arguments(call.arguments)
        wrong = ""
        if self._registry.checks_arguments:
            arguments, wrong = fitted(tool.spec.input_schema, arguments)
        if wrong:
            raise ToolFailed(f"The arguments do not fit {call.name}, which did not run.\n{wrong}")
        return tool, Invocation(call.id, arguments)

    def _no_tool(self, name: str) -> str:
        names = self._registry.names()
        more = ", …" if len(names) > MAX_NAMES else ""
        there = f" There are: {', '.join(names[:MAX_NAMES])}{more}." if names else " No tool can be called here."
        return f"There is no tool named {_unicode(name[:80])}.{there}"


async def _approved(tool: Tool, scope: ToolScope, call: Invocation) -> None:
    """Wait for the user; raises `ToolFailed` when the call may not run."""
    name = tool.spec.name
    if scope.approvals is None:
        raise ToolFailed(f"{name} needs the user's approval, and nobody can be asked here.")
    verdict = await scope.approvals.ask(call, name)
    if not verdict.approved:
        why = f": {verdict.reason}" if verdict.reason else "."
        raise ToolFailed(_unicode(f"The user did not approve this call of {name}{why}"), hint=_DENIED)


async def _within(tool: Tool, scope: ToolScope, call: Invocation) -> object:
    """The tool's output. Raises `ToolFailed` after its timeout, even if it ignores cancellation."""
    work = asyncio.ensure_future(tool.run(scope, call))
    try:
        await asyncio.wait({work}, timeout=tool.timeout)
        if not work.done():
            raise ToolFailed(f"{tool.spec.name} gave no result within {tool.timeout:g} s and was cut off.")
    finally:
        if not work.done():
            await _cut_off(work, tool.spec.name, call.id)
    if work.cancelled():  # by itself: nobody else asked for it
        raise ToolFailed(f"{tool.spec.name} gave up.")
    return work.result()


async def _cut_off(work: asyncio.Task[str | ToolOutput], name: str, call_id: str) -> None:
    work.cancel()
    work.add_done_callback(_let_go)
    await asyncio.wait({work}, timeout=GRACE)
    if not work.done():
        log.warning("a tool continues although it was cancelled", tool=name, call_id=call_id)


def _let_go(work: asyncio.Task[str | ToolOutput]) -> None:
    """Ignores errors that an abandoned call raises later."""
    if not work.cancelled():
        work.exception()


def _result(call: ToolCall, output: object) -> ToolResult:
    """The result from a tool's output. Raises `ToolFailed` for an invalid output."""
    if isinstance(output, str):
        output = ToolOutput(output)
    if not isinstance(output, ToolOutput) or not isinstance(output.content, str):
        raise ToolFailed(f"{call.name} gave something that is no text.")
    return ToolResult(call.id, call.name, _unicode(output.content), queries=output.queries, rich=output.rich)


def _unicode(text: str) -> str:
    """The text with characters replaced that can't be sent or stored: unpaired surrogates and NUL."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "�")


def _failed(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.id, call.name, text, is_error=True)
