"""The emitter takes packets, tags them with their model, and decides nothing (SPEC O14)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lamella.core.packets import Packet


class Emitter:
    """Packets of one run go in, to the turn's sink."""

    def __init__(self, sink: Callable[[Packet], None], model_index: int) -> None:
        self._sink = sink
        self._model_index = model_index

    def emit(self, packet: Packet, block: int | None = None) -> None:
        """Send `packet`, as part of the shown block `block` if it is one."""
        self._sink(msgspec.structs.replace(packet, model_index=self._model_index, block_index=block))
