"""Markers for clients that set none: where the planner puts them, and the body with them.

Most libraries mark nothing, so each turn pays the whole prompt again. A body that has a marker anywhere is left alone:
its caller knows what it does. A request that nothing continues, such as a title, is not marked: writing costs a quarter
more than reading saves.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lamella.cache.ledger import Ledger
from lamella.cache.planner import Facts, MarkerPolicy, deepest_entry, plan
from lamella.cache.window import Chain
from lamella.core.models import Markers
from lamella.core.prompt import Marker
from lamella.gateway.dialects import Dialect, ObservedWindow

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


def wanted_markers(window: ObservedWindow, keys: Chain, ledger: Ledger, facts: Facts) -> tuple[Marker, ...]:
    """The markers for a request of a client that set none; none if its prefix is not likely to be read again."""
    if window.dialect is not Dialect.MESSAGES or facts.model.markers is not Markers.ANTHROPIC or window.is_marked:
        return ()
    last = len(window.blocks) - 1
    goes_on = window.has_tools or "assistant" in window.roles or deepest_entry(keys, ledger, facts.now, last)
    if not goes_on or (window.blocks[0].level == "messages" and len(window.keys) < 2):
        return ()
    made = plan(keys, ledger, facts, MarkerPolicy.PLANNER)
    return made.markers if made.read + made.written else ()


def with_markers(body: bytes, window: ObservedWindow, markers: Sequence[Marker]) -> bytes:
    """The same body with markers. All else keeps its bytes; a text that is marked becomes a block of its own."""
    fields = _fields.decode(body)
    for marker in markers:
        control = msgspec.json.encode({"type": "ephemeral", "ttl": marker.ttl.value})
        level, *path = window.paths[marker.index]
        fields[level] = _marked(fields[level], path, msgspec.Raw(control))
    return msgspec.json.encode(fields)


def _marked(value: msgspec.Raw, path: Sequence[int], control: msgspec.Raw) -> msgspec.Raw:
    """A list with the element at `path` marked; the element of a message is one of its content."""
    if bytes(value).lstrip().startswith(b'"'):
        block = {"type": "text", "text": value, "cache_control": control}
        return msgspec.Raw(msgspec.json.encode([block]))
    items = _items.decode(value)
    item = _fields.decode(items[path[0]])
    if len(path) > 1:
        item["content"] = _marked(item["content"], path[1:], control)
    else:
        item["cache_control"] = control
    items[path[0]] = msgspec.Raw(msgspec.json.encode(item))
    return msgspec.Raw(msgspec.json.encode(items))
