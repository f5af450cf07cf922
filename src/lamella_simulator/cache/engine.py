"""Prefix caches of inference engines: any common token prefix, or whole blocks of tokens; the oldest go first.

After llama.cpp and SGLang (tokens) and vLLM (blocks). They know no markers, lives or write prices. The
last token of a prompt is always computed: an engine needs its logits.
"""

from __future__ import annotations

import hashlib
import importlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import takewhile
from typing import Any, TypeAlias

from lamella_simulator.blocks import Block, Prefix, link
from lamella_simulator.cache.ledger import Outcome
from lamella_simulator.settings import Settings
from lamella_simulator.tokens import encode_text

Tokens: TypeAlias = "array[int]"
END = 2**32 - 1
"""Stands for what ends a message."""
REMEMBERED = 20_000
"""Blocks whose tokens are kept."""


class PrefixStore:
    """What an engine has computed: whole prompts in token mode, chained blocks in block mode."""

    def __init__(self) -> None:
        self._prompts: OrderedDict[bytes, tuple[bytes, Tokens]] = OrderedDict()
        self._blocks: OrderedDict[bytes, None] = OrderedDict()
        self._encoded: OrderedDict[tuple[str | None, bytes], Tokens] = OrderedDict()

    def clear(self) -> None:
        self._prompts.clear()
        self._blocks.clear()

    def measure(self, prefix: Prefix, settings: Settings) -> int:
        return len(self._rendered(prefix, settings))

    def account(self, prefix: Prefix, settings: Settings, *, cold: bool = False) -> Outcome:
        """What a prompt reads; all of it is in the cache afterwards. `cold` finds nothing."""
        tokens = self._rendered(prefix, settings)
        if settings.engine == "blocks":
            read = self._by_blocks(prefix.root, tokens, settings)
        else:
            read = self._by_tokens(prefix.root, tokens, settings)
        return Outcome(len(tokens), read=0 if cold else read)

    def _by_tokens(self, root: bytes, tokens: Tokens, settings: Settings) -> int:
        found, shared = None, 0
        for key, (owner, known) in self._prompts.items():
            if owner == root and (common := common_length(known, tokens)) > shared:
                found, shared = key, common
        if found is not None and shared == len(self._prompts[found][1]):
            del self._prompts[found]
        key = hashlib.blake2b(root + tokens.tobytes(), digest_size=16).digest()
        self._prompts[key] = (root, tokens)
        self._prompts.move_to_end(key)
        held = sum(len(known) for _, known in self._prompts.values())
        while held > settings.engine_capacity and len(self._prompts) > 1:
            held -= len(self._prompts.popitem(last=False)[1][1])
        return min(shared, max(0, len(tokens) - 1))

    def _by_blocks(self, root: bytes, tokens: Tokens, settings: Settings) -> int:
        size = settings.engine_block
        keys = list(block_keys(root, tokens, size))
        live = sum(1 for _ in takewhile(self._blocks.__contains__, keys))
        # The deepest block of a prompt is the first to go: without it those before it are still of use.
        for key in reversed(keys):
            self._blocks[key] = None
            self._blocks.move_to_end(key)
        while len(self._blocks) * size > settings.engine_capacity:
            self._blocks.popitem(last=False)
        return min(live, max(0, len(tokens) - 1) // size) * size

    def _rendered(self, prefix: Prefix, settings: Settings) -> Tokens:
        """The tokens of a prompt: one of a message's overhead opens it, the rest ends it."""
        tokens = array("I")
        end = array("I", [END] * max(0, settings.message_overhead - 1))
        for index, block in enumerate(prefix.blocks):
            if block.opens and settings.message_overhead:
                tokens.extend(end if index else ())
                tokens.append(opening(block.role))
            tokens.extend(self._tokens(block, settings))
        tokens.extend(end)
        if settings.message_overhead:
            tokens.append(opening("assistant"))
        return tokens

    def _tokens(self, block: Block, settings: Settings) -> Tokens:
        """A block's tokens; those of a picture have no text."""
        key = (settings.engine_tokenizer, block.digest)
        if (known := self._encoded.get(key)) is not None:
            self._encoded.move_to_end(key)
            return known
        shown = int.from_bytes(block.digest[:4], "big")
        tokens = array("I", encoded(block.text, settings) if block.text else [shown] * block.tokens)
        self._encoded[key] = tokens
        if len(self._encoded) > REMEMBERED:
            self._encoded.popitem(last=False)
        return tokens


def opening(role: str) -> int:
    """Stands for what opens a message of a role."""
    return int.from_bytes(hashlib.blake2b(role.encode(), digest_size=4).digest(), "big")


def common_length(first: Tokens, second: Tokens) -> int:
    """Tokens that two prompts share from their start."""
    least, most = 0, min(len(first), len(second))
    if first[:most] == second[:most]:
        return most
    while least < most - 1:
        middle = (least + most) // 2
        least, most = (middle, most) if first[least:middle] == second[least:middle] else (least, middle)
    return least


def block_keys(root: bytes, tokens: Tokens, size: int) -> Iterator[bytes]:
    """One hash per whole block of tokens, each over all before it."""
    current = root
    for start in range(0, len(tokens) - size + 1, size):
        current = link(current, tokens[start : start + size].tobytes())
        yield current


def encoded(text: str, settings: Settings) -> Iterable[int]:
    path = settings.engine_tokenizer
    return encode_text(text) if path is None else _tokenizer(path).encode(text, add_special_tokens=False).ids


@cache
def _tokenizer(path: str) -> Any:
    # Only this option needs the package: it is no dependency of the simulator.
    return importlib.import_module("tokenizers").Tokenizer.from_file(path)
