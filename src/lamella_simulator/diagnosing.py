"""Why a prompt could not reuse the cache of an earlier one: what the vendors' diagnostics tell."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from lamella_simulator.blocks import LEVELS, Level, Prefix


@dataclass(frozen=True, slots=True)
class Print:
    """The fingerprint of a prompt: its blocks by level, and the settings that it was sent with, by name."""

    account: str
    settings: tuple[tuple[str, str], ...]
    blocks: tuple[tuple[Level, bytes], ...]
    sums: tuple[int, ...]
    rest: str = ""
    """Settings that no answer names."""
    compacted: bool = False

    def of(self, level: Level) -> list[bytes]:
        return [digest for at, digest in self.blocks if at == level]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that differs: the name of a setting, the level of a block, or `rest`; and the tokens it cost."""

    what: str
    missed: int


class Prints:
    """The fingerprints of the last answers, by their ids."""

    def __init__(self, most: int = 1_000) -> None:
        self._prints: OrderedDict[str, Print] = OrderedDict()
        self._most = most

    def clear(self) -> None:
        self._prints.clear()

    def keep(self, answer: str, made: Print) -> None:
        self._prints[answer] = made
        while len(self._prints) > self._most:
            self._prints.popitem(last=False)

    def of(self, answer: str, account: str) -> Print | None:
        """The prompt of an answer; another account's is not found."""
        found = self._prints.get(answer)
        return found if found is not None and found.account == account else None


def fingerprint(
    account: str, prefix: Prefix, settings: dict[str, str], *, rest: str = "", compacted: bool = False
) -> Print:
    blocks = tuple((block.level, block.digest) for block in prefix.blocks)
    return Print(account, tuple(settings.items()), blocks, prefix.sums, rest, compacted)


def difference(before: Print, now: Print) -> Difference | None:
    """The difference that keeps a prompt from continuing the one before. None if it only appends."""
    shared = 0
    for (old, new), total in zip(zip(before.blocks, now.blocks, strict=False), before.sums, strict=False):
        if old != new:
            break
        shared = total
    whole = before.sums[-1] if before.sums else 0
    for (name, old_value), (_, new_value) in zip(before.settings, now.settings, strict=True):
        if old_value != new_value:
            return Difference(name, whole)
    if now.compacted and not before.compacted and shared < whole:
        return Difference("compacted", whole - shared)
    for level in LEVELS:
        old_blocks, new_blocks = before.of(level), now.of(level)
        continues = old_blocks == (new_blocks[: len(old_blocks)] if level == "messages" else new_blocks)
        if not continues:
            return Difference(level, whole - shared)
    return None if before.rest == now.rest else Difference("rest", whole)
