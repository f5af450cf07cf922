"""An exchange between a client of one API and an upstream of another: the request is translated, and so is the answer.

    exchange.translation = translation_of(Dialect.CHAT, body, Dialect.MESSAGES, "claude-opus-5-5", facts)
    answer = CrossedAnswer(exchange, exchange.translation)
    answer.feed(data)      # the upstream's bytes in, the caller's out
    answer.end()

The upstream always streams, so that its silence is noticed and what was paid for is known. Its line is recorded as the
upstream saw it: those are the bytes that its cache compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import ceil

import msgspec

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import InvalidRequest, ProviderContextOverflow, ProviderError
from lamella.core.json import Json, decode_in_pieces, decode_object, digest, encode
from lamella.core.models import ModelFacts
from lamella.gateway.answers import EVENT_STREAM, READERS, events_of, json_or_text
from lamella.gateway.dialects import Dialect, read
from lamella.gateway.errors import error_body
from lamella.gateway.exchange import Exchange
from lamella.gateway.translation import TITLES, Translation, translated
from lamella.gateway.writing import writer
from lamella.llm.anthropic import VERSION
from lamella.llm.event_stream import EventDecoder, StreamEvent
from lamella.llm.failures import MALFORMED, broken, of_status
from lamella.llm.responses import COUNTED
from lamella.llm.responses_wire import ReasoningSeal
from lamella.llm.streaming import USER_AGENT

CHANGES_HEADER = "x-lamella-changes"
"""In an answer: the places of a request that were not carried as they were."""

ESTIMATE_HEADER = "x-lamella-estimate"
"""In a count: `true` if it was estimated here."""

TOO_LONG = "prompt is too long"
"""Anthropic's words, by which Claude Code notices that it has to compact."""

_LONGEST_HEADER = 1_000
_PREFIXES = {Dialect.MESSAGES: "msg", Dialect.CHAT: "chatcmpl", Dialect.RESPONSES: "resp"}
_COUNTS: Mapping[Dialect, tuple[str, tuple[str, ...]]] = {
    Dialect.MESSAGES: ("/count_tokens", ("model", "messages", "system", "tools", "tool_choice", "thinking")),
    Dialect.RESPONSES: ("/input_tokens", COUNTED),
}
"""The counting endpoint of an API, and the fields that it takes."""

_KEPT = ("retry-after", "retry-after-ms", "x-should-retry")
"""Headers of a refusal that mean the same to every client."""


def headers_of(translation: Translation, key: str) -> dict[str, str]:
    """The headers of the upstream's request. Those of the caller are for another API."""
    version = VERSION if translation.dialect is Dialect.MESSAGES else {}
    plain = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": USER_AGENT}
    return {**plain, **version, "authorization": f"Bearer {key}"}


class CrossedAnswer:
    """One answer. `status` and `headers` are the caller's; `heard`: something came that is paid for;
    `has_failed`: its bytes say that it failed.
    """

    def __init__(self, exchange: Exchange, translation: Translation) -> None:
        self._translation = translation
        self._settings = translation.request.settings
        self._upstream, self._model = exchange.headers, exchange.route.model
        self._reader = READERS[translation.dialect]()
        self._decoder = EventDecoder()
        self._writer = writer(
            translation.caller,
            translation.request.model,
            _id_of(exchange, translation.caller),
            created=int(exchange.at.timestamp()),
            asks_for_usage=self._settings.asks_for_usage,
            carries_thinking=True,
            forms=translation.request.forms,
        )
        self._collected: list[bytes] = []
        """The bytes of an answer that is no stream."""
        self._is_stream = exchange.headers.get("content-type", "").startswith(EVENT_STREAM)
        self.status = exchange.status
        self.heard = False
        self.has_failed = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the caller's answer."""
        streams = self.is_accepted and self._settings.streams
        made = {"content-type": f"{EVENT_STREAM}; charset=utf-8" if streams else "application/json"}
        name = self._upstream.get("request-id") or self._upstream.get("x-request-id")
        made |= {"request-id": name, "x-request-id": name} if name else {}
        made |= {kept: self._upstream[kept] for kept in _KEPT if kept in self._upstream}
        places = ", ".join(note.partition(":")[0] for note in self._translation.notes[1:])
        told = places.encode("ascii", "replace").decode()[:_LONGEST_HEADER]
        return made | ({CHANGES_HEADER: told} if told else {})

    @property
    def is_accepted(self) -> bool:
        """Whether the upstream answers the request."""
        return 200 <= self.status < 300

    def feed(self, data: bytes) -> bytes:
        """What the caller gets of these bytes. Raises `ProviderError` if the upstream reports that it failed."""
        if not self.is_accepted or not self._is_stream:
            self._collected.append(data)
            return b""
        return self._streamed(self._written(self._decoder.feed(data)))

    def end(self) -> bytes:
        """The rest. Raises `ProviderError` for an answer that is not whole."""
        if not self.is_accepted:
            return self._refusal()
        rest = b"" if self._is_stream else self._whole()
        if not self._reader.ended:
            self.has_failed = True
            raise broken(self._provider, "the stream ended before the message did")
        rest += self._writer.end()
        if self._settings.streams:
            return rest
        return encode(self._writer.whole())

    def fail(self, error: ProviderError) -> bytes:
        """The end of a stream that broke off."""
        return self._writer.fail(error)

    def _streamed(self, written: bytes) -> bytes:
        return written if self._settings.streams else b""

    def _whole(self) -> bytes:
        """An answer that came as one object, although a stream was asked for."""
        try:
            message = decode_object(b"".join(self._collected))
        except msgspec.DecodeError as error:
            raise broken(self._provider, f"its answer can't be read: {error}") from None
        return self._written(events_of(self._translation.dialect, message))

    def _written(self, events: Iterable[StreamEvent]) -> bytes:
        try:
            return b"".join(self._writer.feed(self._marked(delta)) for event in events for delta in self._read(event))
        except ProviderError:
            self.has_failed = True
            raise
        except MALFORMED as error:
            self.has_failed = True
            raise broken(self._provider, f"its answer can't be read: {error}") from error

    def _read(self, event: StreamEvent) -> Iterator[Delta]:
        for delta in self._reader.of(event):
            self.heard = True
            yield delta

    def _marked(self, delta: Delta) -> Delta:
        """A call with the caller's name of its tool, and a seal of OpenAI's with the model that alone can read it."""
        match delta:
            case deltas.ToolCallOpened(name=name) if name in self._translation.names:
                return replace(delta, name=self._translation.names[name])
            case deltas.ReasoningSealed(signature=str(text)) if (seal := ReasoningSeal.read(text)) is not None:
                return replace(delta, signature=msgspec.structs.replace(seal, model=self._model).text())
            case _:
                return delta

    def _refusal(self) -> bytes:
        """The upstream's refusal in the caller's API."""
        data = b"".join(self._collected)
        retry_after = self._upstream.get("retry-after")
        error = of_status(self._provider, self.status, json_or_text(data), "", retry_after)
        if isinstance(error, ProviderContextOverflow) and self._translation.caller is Dialect.MESSAGES:
            error.message = f"{TOO_LONG}: {error.message}"
        error.hint = None  # it is for the operator of this server
        return error_body(self._translation.caller, error, self.status)

    @property
    def _provider(self) -> str:
        return f"The upstream ({TITLES[self._translation.dialect]})"


def _id_of(exchange: Exchange, caller: Dialect) -> str:
    name = digest(exchange.body, exchange.at.isoformat().encode())[:24]
    return f"{_PREFIXES[caller]}_{name}"


def translation_of(caller: Dialect, body: bytes, dialect: Dialect, model: str, facts: ModelFacts) -> Translation:
    """The translation of a body as it came. Raises `InvalidRequest`."""
    try:
        fields = decode_in_pieces(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body can't be read: {error}.", hint="Send one JSON object.") from None
    return translated(caller, fields, dialect, model, facts)


# Counting


def count_request(translation: Translation) -> tuple[str, bytes] | None:
    """Path after the upstream's own, and body, of a request that counts tokens; None if its API counts none."""
    if translation.dialect not in _COUNTS:
        return None
    path, known = _COUNTS[translation.dialect]
    fields = decode_object(translation.body)
    return path, encode({name: value for name, value in fields.items() if name in known})


def tokens_in(answer: bytes) -> int | None:
    """The tokens of a count; None if it has none."""
    try:
        found = decode_object(answer).get("input_tokens")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if isinstance(found, int) else None


def estimate(translation: Translation, facts: ModelFacts) -> int:
    """The tokens of a request, as counted here."""
    window = read(translation.dialect, decode_object(translation.body))
    return ceil(facts.token_factor * sum(segment.tokens for segment in window.segments))


def counted(caller: Dialect, tokens: int) -> bytes:
    """A count of tokens in the caller's API."""
    kind: dict[str, Json] = {"object": "response.input_tokens"} if caller is Dialect.RESPONSES else {}
    return encode({**kind, "input_tokens": tokens})
