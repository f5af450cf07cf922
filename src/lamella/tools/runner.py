"""Runs the calls of one step together; whatever happens becomes a result that the model can act on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog

from lamella.core.errors import ToolFailed
from lamella.core.json import decode_object
from lamella.core.messages import ToolCall, ToolResult
from lamella.tools.tool import Invocation, Registry, ToolOutput, ToolScope

log = structlog.get_logger()


class ToolRunner:
    """Runs calls against a registry, each with its own time limit."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def run(
        self,
        calls: Sequence[ToolCall],
        scope: ToolScope,
        malformed: Mapping[str, str],
        done: Callable[[ToolResult], None],
    ) -> tuple[ToolResult, ...]:
        """One result for each call, in call order; `done` hears of each as it arrives.

        `malformed` names the calls whose arguments were no JSON object, with what the model wrote.
        """

        async def one(call: ToolCall) -> ToolResult:
            result = await self._one(call, scope, malformed.get(call.id))
            done(result)
            return result

        return tuple(await asyncio.gather(*(one(call) for call in calls)))

    async def _one(self, call: ToolCall, scope: ToolScope, malformed: str | None) -> ToolResult:
        tool = self._registry.find(call.name)
        if tool is None:
            return _failed(call, f"There is no tool named {call.name}.")
        if malformed is not None:
            return _failed(call, f"The arguments are not a JSON object: {malformed[:200]}")
        try:
            async with asyncio.timeout(tool.timeout):
                output = await tool.run(scope, Invocation(call.id, decode_object(call.arguments)))
        except TimeoutError:
            return _failed(call, f"{call.name} gave no result within {tool.timeout:g} s.")
        except (ToolFailed, msgspec.ValidationError) as error:
            return _failed(call, str(error))
        except Exception:  # the border where a tool's failure becomes a value for the model and a log line for us
            log.exception("tool failed", tool=call.name, call_id=call.id)
            return _failed(call, f"{call.name} failed.")
        if isinstance(output, ToolOutput):
            return ToolResult(call.id, call.name, output.content, queries=output.queries)
        return ToolResult(call.id, call.name, output)


def _failed(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.id, call.name, text, is_error=True)
