"""What the gateway changes in a body. It adds markers and the key of a cache if its client set none, and the request
for the bill of a Chat stream.

Most libraries mark nothing, so each turn pays the whole prompt again. A body that has a marker anywhere is left alone:
its caller knows what it does. A request that nothing continues, such as a title, is not marked: writing costs a quarter
more than reading saves.

The caches of Anthropic are kept apart by the provider's key alone. Those of OpenAI also have a key of the caller's,
`prompt_cache_key`: one is added for each user, so that nobody can find out what others have sent by what is read.

Thinking under a seal of this server is the one thing that is taken out: the vendor that gets it would refuse it.

A Chat stream only has a bill if `stream_options.include_usage` asks for it, in a last chunk without choices. Some
clients fail on a chunk without choices, so it goes to those alone that asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

import msgspec

from lamella.cache.ledger import Ledger
from lamella.cache.planner import Facts, MarkerPolicy, deepest_entry, plan
from lamella.cache.window import Chain
from lamella.core.json import Json, decode, elements, encode, members, with_field, with_value
from lamella.core.models import Markers
from lamella.core.prompt import Marker
from lamella.gateway.canonical import CARRIES, SEAL
from lamella.gateway.dialects import Dialect, ObservedWindow, text_of


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
    for marker in markers:
        level, *path = window.paths[marker.index]
        control = encode({"type": "ephemeral", "ttl": marker.ttl.value})
        body = _with_marked(body, level, path, control)
    return body


def _with_marked(data: bytes, name: str, path: Sequence[int], control: bytes) -> bytes:
    """An object with the element at `path` of a field marked; the element of a message is one of its content."""
    start, end = [span for field, span in members(data) if field == name][-1]
    value = data[start:end]
    if value.startswith(b'"'):
        made = b'[{"type":"text","text":%b,"cache_control":%b}]' % (value, control)
        return data[:start] + made + data[end:]
    place = elements(value)[path[0]]
    item = value[place.start : place.end]
    if len(path) > 1:
        item = _with_marked(item, "content", path[1:], control)
    else:
        item = with_field(item, "cache_control", control)
    return data[: start + place.start] + item + data[start + place.end :]


# The key of the provider's cache


def cache_key(salt: bytes, owner: str, session: str | None, dialect: Dialect, body: bytes) -> str:
    """The name of an owner's cache at a provider: one for each session, or for each first message of a user.

    OpenAI sends requests with one key to one machine, which takes about 15 a minute: one key for an owner is too few.
    """
    begins = session or _first_said(dialect, body)
    return blake2b(f"{owner}\n{begins}".encode(), key=salt, digest_size=16).hexdigest()


def with_cache_key(body: bytes, key: str) -> bytes:
    """The same body with the key; everything else keeps its bytes."""
    return with_field(body, "prompt_cache_key", encode(key))


def _first_said(dialect: Dialect, body: bytes) -> str:
    """The first text of a user: it stays, while all after it grows."""
    name = "messages" if dialect is Dialect.CHAT else "input"
    said = next((body[start:end] for field, (start, end) in reversed(members(body)) if field == name), b"[]")
    if not said.startswith(b"["):
        return str(_read(said))
    for start, end in elements(said):
        message = _read(said[start:end])
        if isinstance(message, Mapping) and message.get("role") == "user":
            return text_of([message])
    return ""


def _read(said: bytes) -> Json:
    """A value; None if it can't be read, which is for the upstream to tell."""
    try:
        return decode(said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


# Thinking under a seal of ours


_SEALED = b'"' + SEAL.encode()


_CARRYING = re.compile(rb'("(?:tool_call_)?id"\s*:\s*"[^"\\]{1,200}?)' + CARRIES.encode() + rb'[\w=-]*"')
"""Matches the id of a call that carries thinking. Within a text its quotes are escaped, so no text matches."""


def without_own_seals(dialect: Dialect, body: bytes) -> bytes:
    """The same body without thinking under a seal of this server, which the client got from an agent or a model of
    another API. Everything else keeps its bytes. Raises `msgspec.DecodeError`.

    Over Chat Completions the ids of calls carry it (`carrying_id`), and are longer than OpenAI takes.
    """
    if dialect is Dialect.CHAT and CARRIES.encode() in body:
        body = _CARRYING.sub(rb'\1"', body)
    if _SEALED not in body:
        return body
    if dialect is Dialect.RESPONSES:
        return _filtered(body, "input", _unsealed)
    return _filtered(body, "messages", _unsealed_message)


def _filtered(data: bytes, name: str, kept: Callable[[bytes], bytes | None]) -> bytes:
    """An object with the elements of one of its lists as `kept` gives them; None leaves one out."""
    for start, end in [span for field, span in members(data) if field == name][-1:]:
        if data[start : start + 1] == b"[":
            value = data[start:end]
            found = [kept(value[first:last]) for first, last in elements(value)]
            data = data[:start] + b"[" + b",".join(one for one in found if one is not None) + b"]" + data[end:]
    return data


def _unsealed_message(message: bytes) -> bytes | None:
    """The message without such thinking; None if it has nothing else."""
    made = _filtered(message, "content", _unsealed) if _SEALED in message else message
    return None if made != message and decode(made)["content"] == [] else made  # type: ignore[index,call-overload]


def _unsealed(part: bytes) -> bytes | None:
    """A part or an item; None for such thinking."""
    if _SEALED not in part:
        return part
    match decode(part):
        case (
            {"type": "thinking", "signature": str(seal)}
            | {"type": "redacted_thinking", "data": str(seal)}
            | {"type": "reasoning", "encrypted_content": str(seal)}
        ) if seal.startswith(SEAL):
            return None
        case _:
            return part


# The bill of a Chat stream


_END = b"\n\n"


def asks_for_usage(fields: Mapping[str, Json]) -> bool:
    """Whether a body has a bill in its answer already: it is no stream, or it asks for one."""
    options = fields.get("stream_options")
    return fields.get("stream") is not True or (isinstance(options, Mapping) and bool(options.get("include_usage")))


def with_usage(body: bytes) -> bytes:
    """The same body, which asks for the usage; everything else keeps its bytes. Raises `msgspec.DecodeError`."""
    spans = [span for name, span in members(body) if name == "stream_options"]
    given = body[spans[-1].start : spans[-1].end] if spans else b""
    options = with_field(given if given.startswith(b"{") else b"{}", "include_usage", b"true")
    return with_value(body, "stream_options", spans, options)


class UsageFilter:
    """Takes the chunk with the usage out of a stream, and leaves every other byte."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """What the caller gets of these bytes, and of those that were held for the end of their event."""
        if not self._rest and data.endswith(_END) and b'"usage"' not in data:
            return data
        *whole, self._rest = (self._rest + data).split(_END)
        return b"".join(event + _END for event in whole if not _is_bill(event))

    def end(self) -> bytes:
        """What is left of a stream that ended within an event."""
        return self._rest


def _is_bill(event: bytes) -> bool:
    """Whether an event is a chunk that has a usage and no choices."""
    if b'"usage"' not in event or not event.lstrip().startswith(b"data:"):
        return False
    try:
        chunk = decode(event.lstrip().removeprefix(b"data:"))
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(chunk, Mapping) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), Mapping)
