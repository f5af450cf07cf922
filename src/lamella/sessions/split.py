"""Where a compaction cuts: on a turn boundary, so that no call is parted from its result (SPEC L7). Pure."""

from __future__ import annotations

from collections.abc import Sequence


def turns_kept(sizes: Sequence[int], keep: int, huge: int) -> int:
    """How many of the newest turns stay as they are, from the tokens of each turn, oldest first.

    As many as fit into `keep` tokens; the newest stays in any case unless it has more than `huge`.
    """
    kept, room = 0, keep
    for size in reversed(sizes):
        if size > room and not (kept == 0 and size <= huge):
            break
        kept += 1
        room -= size
    return kept
