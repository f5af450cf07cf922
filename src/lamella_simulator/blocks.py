"""Canonical blocks: what the providers hash, count and bill, whatever the wire they came by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Level = Literal["tools", "system", "messages"]
LEVELS: tuple[Level, ...] = ("tools", "system", "messages")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Marker:
    """A cache breakpoint asked for at a block; `seconds` is the life of what is written there."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Block:
    """One tool, system block or content block; `digest` is over role and content without markers."""

    level: Level
    role: str
    digest: bytes
    tokens: int
    path: str
    marker: Marker | None = None
    thinking: bool = False
    ending: bool = False
    """OpenAI: the last block of a message at which implicit caching may match."""
    writes: bool = False
    """OpenAI: the ending that implicit caching writes."""
    text: str = ""
    """Token-step caching and engines need the text itself; empty elsewhere."""
    opens: bool = False
    """The first block of its message, or of the list of tools."""


@dataclass(frozen=True, slots=True)
class Salts:
    """What changes a cache key without being a block, by the level that it invalidates."""

    root: str
    system: str = ""
    messages: str = ""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Blocks with the chain hash and the token sum up to and including each."""

    blocks: tuple[Block, ...]
    hashes: tuple[bytes, ...]
    sums: tuple[int, ...]
    root: bytes

    @property
    def total(self) -> int:
        return self.sums[-1] if self.sums else 0


def encode(value: object) -> bytes:
    """JSON bytes with the key order as received."""
    return msgspec.json.encode(value)


AS_WRITTEN = frozenset({"input", "arguments", "parameters", "schema", "tools"})
"""Fields whose JSON the model reads as it was written: arguments of calls, and descriptions of tools."""


def rendered(raw: Json) -> bytes:
    """The bytes of a message's block for its hash. A provider makes its prompt of the fields that it knows, so their
    order does not count, except in JSON that the model reads itself.
    """
    return encode(_ordered(raw))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: value[key] if key in AS_WRITTEN else _ordered(value[key]) for key in sorted(value)}
    return [_ordered(one) for one in value] if isinstance(value, list) else value


def digest(*parts: bytes) -> bytes:
    """A short hash of parts, each with its length, so that no two lists of parts collide."""
    lengths = b",".join(b"%d" % len(part) for part in parts)
    return hashlib.blake2b(b"".join((lengths, b":", *parts)), digest_size=16).digest()


def link(previous: bytes, block_digest: bytes) -> bytes:
    return hashlib.blake2b(previous + block_digest, digest_size=16).digest()


def build_prefix(salts: Salts, blocks: Iterable[Block]) -> Prefix:
    """Chains the blocks: h(k) = H(h(k-1), block k), with the salt of a level mixed in before its first block."""
    ordered = tuple(blocks)
    by_level = {"tools": "", "system": salts.system, "messages": salts.messages}
    current = root = digest(salts.root.encode())
    reached = 0
    hashes: list[bytes] = []
    sums: list[int] = []
    total = 0
    for block in ordered:
        target = LEVELS.index(block.level)
        while reached < target:
            reached += 1
            current = link(current, by_level[LEVELS[reached]].encode())
        current = link(current, block.digest)
        total += block.tokens
        hashes.append(current)
        sums.append(total)
    return Prefix(ordered, tuple(hashes), tuple(sums), root)
