"""Whether what a search gave are web hits: addresses whose pages are worth opening (SPEC O8)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from lamella.core.json import Json, decode
from lamella.core.messages import ToolResult

OPEN_URL = "open_url"
"""The tool that opens an address."""

_OPENED = frozenset({OPEN_URL, "read_file"})
"""Tools whose results are pages that are open already."""

_FIELDS = ("url", "link", "href")
_ADDRESS = re.compile(r"https?://[^\s/]", re.IGNORECASE)


def has_web_hits(result: ToolResult) -> bool:
    """Whether a search's result names web addresses: in a field of its JSON, or anywhere where it is plain text.

    A passage of a document that mentions an address is no hit of it.
    """
    if result.is_error or result.name in _OPENED:
        return False
    try:
        found = decode(result.content)
    except (msgspec.DecodeError, RecursionError):
        return _ADDRESS.search(result.content) is not None
    return any(_ADDRESS.match(address) for address in _addresses(found))


def _addresses(value: Json) -> Iterator[str]:
    """The addresses in the fields of a JSON value, at any depth that JSON is read to."""
    if isinstance(value, dict):
        yield from (field for name in _FIELDS if isinstance(field := value.get(name), str))
        for inner in value.values():
            yield from _addresses(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _addresses(inner)
