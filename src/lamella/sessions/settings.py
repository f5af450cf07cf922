"""The deployment's settings of sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lamella.cache.economics import (
    CompactWhen,
)
from lamella.cache.pruning import PruneSettings
from lamella.cache.weighing import Trigger
from lamella.core.records import Retention
from lamella.core.tokens import Threshold

SummariserChoice = Literal["configured", "cheapest"]
"""Which model summarises if a second one is configured: `configured`, that one; `cheapest`, the cheaper of both each
time.
"""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Sizes in tokens. `huge`: the share of the budget above which even the newest turn is summarised. `look`: after
    how many seconds a waiter for a compaction checks again whether another process ended it.
    `titles`: whether a model writes titles. `compact_when`: at the threshold alone, or before it, if it pays;
    `floor`: below which size not, in `balanced`. None: `economics.floor_of` says it. `by_itself`: whether anything is
    pruned or compacted between turns that nobody asked for; the sizes of what is asked for are the same without."""

    keep_recent: int = 4_000
    compaction: Threshold = field(default_factory=lambda: Threshold(share=0.8))
    resume: Threshold = field(default_factory=lambda: Threshold(share=0.7))
    pruning: PruneSettings = field(default_factory=PruneSettings)
    notify: bool = True
    titles: bool = False
    huge: float = 0.25
    compact_when: CompactWhen = "balanced"
    floor: Threshold | None = None
    by_itself: bool = True
    look: float = 5.0
    patience: float = 300.0
    """Seconds that `/resume` waits for a summary that was not made before; after that it does without."""
    keeps: Retention = field(default_factory=Retention)
    """How long packets and request bodies are kept."""


def trigger_of(settings: SessionSettings) -> Trigger:
    """The deployment's compaction trigger."""
    return Trigger(settings.compaction, settings.keep_recent, settings.compact_when, settings.floor)
