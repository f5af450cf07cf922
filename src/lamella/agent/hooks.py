"""The hooks of the loop: `RunHooks`. A server stores data in them; a script can use the defaults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from lamella.agent.inputs import CompactedHistory, RunInput, TurnInput
from lamella.agent.request import PrefixLine
from lamella.core.decisions import Decision
from lamella.core.errors import NotFound, ToolFailed
from lamella.core.messages import Attachment
from lamella.core.packets import Packet
from lamella.core.records import FoundDocument, NewRequest, ProviderLimit
from lamella.tooling.tool import Invocation, Verdict


class Emitter:
    """Tags the packets of one run with the number of its model, and hands them to `sink`."""

    def __init__(self, sink: Callable[[Packet], None], model_index: int) -> None:
        self._sink = sink
        self._model_index = model_index

    def emit(self, packet: Packet, block: int | None = None) -> None:
        """Send `packet`, as part of the shown block `block` if it is one."""
        self._sink(msgspec.structs.replace(packet, model_index=self._model_index, block_index=block))


@dataclass(frozen=True, slots=True)
class Fallback:
    """A run of another model that answers the same turn, with a window of its own."""

    turn: TurnInput
    input: RunInput
    line: PrefixLine | None


class RunHooks:
    """Override what you need. The defaults store nothing, deny calls that need an approval, and never stop.

    A `LamellaError` raised by a hook ends the run, unless its docstring says otherwise.
    """

    def emit(self, packet: Packet) -> None:
        """A packet, in the order in which a client is to see it."""

    async def request(self, new: NewRequest) -> None:
        """A request is complete, with its predicted bill. It is sent after this returns."""

    async def decided(self, decisions: Sequence[Decision]) -> None:
        """Decisions that no request carries: another model answers, or a refusal taught how its provider counts."""

    async def limit_learned(self, limit: ProviderLimit) -> None:
        """A provider's limit of a prompt in tokens was learned, or lifted."""

    async def compact(self, model: str) -> CompactedHistory | None:
        """`model` refused the request as too large. Compact the history, or return None. Errors are only logged."""
        return None

    async def fallback(self, run_id: str) -> Fallback | None:
        """The model that answers if that of `run_id` failed before it showed anything. An error is only logged."""
        return None

    async def approve(self, call: Invocation, name: str) -> Verdict:
        """Ask the user about a call of the tool `name`, and wait for the answer."""
        return Verdict(False, "nobody can be asked here.")

    async def keep_document(self, document: FoundDocument, tokens: int) -> Attachment:
        """Store a document that a tool found, and return it with its number. Raises `ToolFailed` if none can be
        stored.
        """
        raise ToolFailed("No documents are kept here.")

    async def document_text(self, document_id: str) -> str:
        """The text of a document that was kept; raises `NotFound`."""
        raise NotFound(f"There is no document {document_id}.")

    async def stopped(self, run_id: str) -> None:
        """Returns when the user stops this run."""
        await asyncio.Event().wait()

    def may_act(self, run_id: str) -> bool:
        """Whether calls of this run may change something outside without asking: of several runs, one may."""
        return True
