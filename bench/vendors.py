"""A model of each vendor, with its prices and the lives that it sells; what the benches replay on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

READS = (0.1, 0.05, 0.025)
"""What cached reads cost, as a multiple of the price of input: as the vendors' models have it."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """`input` and `output` are US dollars for a million tokens; `lives` are the seconds that an entry lives, with what
    writing it costs as a multiple of input, the shorter first."""

    model: str
    input: float
    output: float
    lives: tuple[tuple[float, float], ...]

    def priced(self, read: float, folder: Path) -> Path:
        """A table of models in `folder`, in which reads of this one cost so much."""
        (_, shorter), (_, longer) = self.lives
        price = {"input": self.input, "output": self.output, "read": read, "write_5m": shorter, "write_1h": longer}
        path = folder / f"{self.model}-{read}.json"
        path.write_text(json.dumps({"models": [{"name": self.model, "price": price}]}))
        return path


VENDORS = (
    Vendor("claude-opus-5", 5.0, 25.0, ((300.0, 1.25), (3_600.0, 2.0))),
    Vendor("gpt-5.6", 4.0, 20.0, ((1_800.0, 1.25), (43_200.0, 2.5))),
)
