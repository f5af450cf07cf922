"""A request beside the conversation: sent, heard to its end, and recorded like any other."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from lamella.core import deltas
from lamella.core.errors import LamellaError
from lamella.core.messages import StopReason
from lamella.core.ports import ChatModel
from lamella.core.prompt import WireRequest
from lamella.core.records import RequestEnd, Said
from lamella.core.tokens import Usage


@dataclass(slots=True)
class SideAnswer:
    """What came back. `error` is what broke it off."""

    said: list[str] = field(default_factory=list)
    stop_reason: StopReason | None = None
    called_tools: bool = False
    usage: Usage = field(default_factory=Usage)
    provider_request_id: str | None = None
    error: LamellaError | None = None

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(self.said).strip()

    def end(self, request_id: str, cost: float) -> RequestEnd:
        """What became of the request."""
        error = self.error.as_dict() if self.error is not None else None
        stop = self.stop_reason.value if self.stop_reason is not None else None
        said = Said("".join(self.said), stop, self.called_tools)
        return RequestEnd(request_id, self.usage, cost, self.provider_request_id, error, said=said)


async def ask(
    model: ChatModel, request: WireRequest, headers: Mapping[str, str], answer: SideAnswer | None = None
) -> SideAnswer:
    """Send a request and hear it out. A failure of the provider is in the answer, since what was billed is too.

    Who may break it off gives the `answer`, and has what came until then.
    """
    answer = answer if answer is not None else SideAnswer()
    try:
        async with aclosing(model.stream(request, dict(headers))) as stream:  # type: ignore[type-var]  # a generator
            async for delta in stream:
                _hear(answer, delta)
    except LamellaError as error:
        answer.error = error
    return answer


def _hear(answer: SideAnswer, delta: deltas.Delta) -> None:
    match delta:
        case deltas.Opened(provider_request_id, _):
            answer.provider_request_id = provider_request_id
        case deltas.TextDelta(_, text):
            answer.said.append(text)
        case deltas.ToolCallOpened():
            answer.called_tools = True
        case deltas.UsageReported(usage):
            answer.usage = usage
        case deltas.Closed(stop_reason):
            answer.stop_reason = stop_reason
        case _:
            pass
