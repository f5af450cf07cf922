"""Counts tokens with the o200k vocabulary; the only place that loads the tokenizer (75 MB, so only in a child)."""

from __future__ import annotations

import importlib.util
from importlib.machinery import PathFinder
from typing import Protocol


class _Tokenizer(Protocol):
    def count(self, text: str) -> int: ...


class _Bindings(Protocol):
    def tokenizer_for_encoding(self, name: str) -> _Tokenizer: ...


def count_tokens(text: str) -> int:
    """The number of o200k tokens of `text`, special tokens read as plain text."""
    bindings = _load_bindings()
    return bindings.tokenizer_for_encoding("o200k_base").count(text)


def _load_bindings() -> _Bindings:
    """Only the native part of `bpe_openai`: its Python part unpacks all vocabularies again, in 0.4 s."""
    package = importlib.util.find_spec("bpe_openai")
    locations = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec("_bindings", locations)
    if spec is None or spec.loader is None:
        raise ImportError("bpe_openai has no native module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    bindings: _Bindings = module
    return bindings
