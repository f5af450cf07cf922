"""The prefix of a request as a chain of fingerprints: entry i stands for all blocks up to and including i."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lamella.core.json import digest
from lamella.core.prompt import Level, WireBlock


@dataclass(frozen=True, slots=True)
class Chain:
    """`keys[i]` is equal in two requests exactly when a provider's cache would take their prefixes for equal.

    `root` holds what no prefix survives (account, model), `salts` what changes the key from a level on.
    """

    root: str
    salts: Mapping[Level, str]
    blocks: tuple[WireBlock, ...]
    keys: tuple[str, ...]


def chain(blocks: tuple[WireBlock, ...], root: str, salts: Mapping[Level, str], previous: Chain | None = None) -> Chain:
    """The chain of `blocks`; `previous` saves the work for the blocks that are the same objects."""
    keys: list[str] = []
    if previous is not None and previous.root == root and previous.salts == salts:
        pairs = enumerate(zip(blocks, previous.blocks, strict=False))
        other = (index for index, (mine, theirs) in pairs if mine is not theirs)
        keys = list(previous.keys[: next(other, min(len(blocks), len(previous.blocks)))])
    key = keys[-1] if keys else digest(root.encode())
    level = blocks[len(keys) - 1].level if keys else None
    for block in blocks[len(keys) :]:
        if block.level != level:
            level = block.level
            key = digest(key.encode(), salts.get(level, "").encode())
        key = digest(key.encode(), block.digest.encode())
        keys.append(key)
    return Chain(root, salts, blocks, tuple(keys))
