"""Forwards a client's request as it was written, and relays the answer's bytes as they come.

What the caller sent goes on unchanged: the body byte for byte, unless an alias names another model; its headers but
those of the connection and its key for this server. Nothing is retried here, since the client retries itself. A copy of
what passed is given to the recorder, which works beside the stream and never holds it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from lamella.core.access import ContextOption, Identity, LineStorage
from lamella.core.clock import Clock
from lamella.core.errors import (
    ClientLoops,
    InvalidRequest,
    LamellaError,
    PayloadTooLarge,
    ProviderError,
    ProviderTimeout,
)
from lamella.core.json import Json, decode_mended, encode, fields_but, with_field
from lamella.core.models import Markers, ModelFacts
from lamella.gateway.across import (
    ESTIMATE_HEADER,
    CrossedAnswer,
    count_request,
    counted,
    estimate,
    headers_of,
    tokens_in,
    translation_of,
)
from lamella.gateway.additions import (
    UsageFilter,
    asks_for_usage,
    cache_key,
    with_cache_key,
    with_usage,
    without_own_seals,
)
from lamella.gateway.dialects import Dialect
from lamella.gateway.errors import error_body, error_event, retry_after, status_of
from lamella.gateway.exchange import PROMPT_FIELDS, Exchange, Route
from lamella.gateway.issued import IssuedResponses
from lamella.gateway.loops import SILENCE
from lamella.gateway.managing import ManagedContext
from lamella.gateway.matching import client_of, session_of
from lamella.gateway.observed import hashed_session
from lamella.gateway.recorder import LONG_BYTES, LineRecorder
from lamella.gateway.translation import Translation
from lamella.llm.failures import of_status

MAX_BODY_BYTES = 64_000_000
"""Vendors take 32 MB; a request of a client that is larger is its mistake."""

_CONNECTION = frozenset(
    {
        "host", "content-length", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade",
        "proxy-authorization", "proxy-connection", "expect", "accept-encoding", "cookie", "authorization", "x-api-key",
    }
)  # fmt: skip
"""Headers of a request that are between the client and this server."""

_COUNTED = ("", "/count_tokens", "/input_tokens")
"""Paths after those of a dialect that another API has too."""

_OURS = "x-lamella-"
_HELD = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "set-cookie", "server", "date"})
"""Headers of an answer that are between this server and the upstream."""

SPENT = {"x-should-retry": "false"}
"""In a refusal after tokens were spent: a client's library would send it again by itself."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def with_model(body: bytes, model: str) -> bytes:
    """The same body with another model: everything else keeps its bytes and its place."""
    return with_field(body, "model", encode(model))


class Gateway:
    """One door: a path of one dialect. It is an ASGI application."""

    def __init__(self, dialect: Dialect, path: str = "", *, records: bool = True) -> None:
        self._dialect = dialect
        self._path = path
        """What follows the path of the dialect, such as `/count_tokens`."""
        self._records = records and not path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        parts: GatewayParts = scope["state"]["gateway"]
        identity: Identity = scope["state"]["identity"]
        sent = Sent(send, scope["state"].get(SEND_BODY))
        try:
            body = await read_body(request)
            exchange = await self._exchange(request, body, identity, parts)
        except ClientDisconnect:
            return
        except LamellaError as error:
            await sent.refuse(self._dialect, error)
            return
        await self._relay(request, exchange, parts, sent)

    async def _exchange(self, request: Request, body: bytes, identity: Identity, parts: GatewayParts) -> Exchange:
        fields = fields_of(body)
        model = model_of(fields)
        route = await parts.find(self._dialect, model, identity.caller.user_id)
        body = body if route.model == model else with_model(body, route.model)
        unsealed = await _unsealed(self._dialect, body) if route.dialect is self._dialect else body
        storage = identity.options.storage or parts.storage
        session = session_of(request.headers, fields)
        if session is not None and storage is LineStorage.HASHES:
            session = hashed_session(session)
        client, now = client_of(request.headers), parts.clock.now()
        made = Exchange(identity.caller, route.dialect, client, session, route, unsealed, now, storage)
        made.drops_thinking = unsealed is not body
        if route.dialect is not self._dialect:
            made.translation = await self._translated(body, model, route)
            made.body = made.translation.body
        made.is_kept = self._records and route.dialect is self._dialect is Dialect.RESPONSES
        made.is_kept = made.is_kept and fields.get("store") is not False
        if self._records and parts.refuses_loops:
            await parts.recorder.refuse_loops(made)
        asks = self._records and parts.asks_for_usage and made.translation is None
        if asks and self._dialect is Dialect.CHAT and not asks_for_usage(fields):
            made.body, made.hides_usage = with_usage(made.body), True
        is_named = "prompt_cache_key" in fields or request.headers.get(CACHE_KEY_HEADER, "on") == "off"
        if not self._path and not is_named and identity.key_id is not None and parts.salt is not None:
            await _separate(made, parts.salt)
        translated = made.translation
        made.forwarded = headers_of(translated, route.key) if translated else client_headers(request, route.key)
        if self._records and manages(request, storage):
            await parts.managed.apply(made)
        if self._records and parts.adds_markers and request.headers.get(MARKERS_HEADER, "on") != "off":
            await parts.recorder.mark(made)
        return made

    async def _translated(self, body: bytes, model: str, route: Route) -> Translation:
        """The body for an upstream of another API; a long one in a thread, so that it holds up no stream."""
        if self._path not in _COUNTED:
            raise InvalidRequest(
                f"{self._path} can't be carried to another API.", hint="Use a model whose upstream speaks this API."
            )
        aside = len(body) > LONG_BYTES
        told = (self._dialect, body, route.dialect, route.model, route.facts)
        made = await asyncio.to_thread(translation_of, *told) if aside else translation_of(*told)
        return replace(made, request=replace(made.request, model=model))

    async def _relay(self, request: Request, exchange: Exchange, parts: GatewayParts, sent: Sent) -> None:
        """Relay the answer until it is whole, or until the client leaves: then the upstream is closed at once."""
        relaying = asyncio.ensure_future(self._pass(request, exchange, sent, parts.recorder.issued))
        leaving = asyncio.ensure_future(cancel_on_leaving(request, relaying))
        try:
            await relaying
        except asyncio.CancelledError:
            exchange.left = True
            if not leaving.done():
                raise
        except ProviderError as error:
            exchange.error = error
            await sent.fail(self._dialect, error, b"".join(exchange.answer))
        finally:
            relaying.cancel()
            leaving.cancel()
            if self._records and exchange.storage is not LineStorage.OFF:
                parts.recorder.take(exchange)

    async def _pass(self, request: Request, exchange: Exchange, sent: Sent, issued: IssuedResponses) -> None:
        route = exchange.route
        if exchange.translation is not None:
            await (self._count if self._path else self._cross)(exchange, exchange.translation, sent)
            return
        query = request.scope.get("query_string", b"").decode("latin-1")
        path = f"{route.path}{self._path}" + (f"?{query}" if query else "")
        async with route.connection.send(path, exchange.body, exchange.forwarded) as reply:
            exchange.status, exchange.headers = reply.status, reply.headers
            refuse_redirect(route, reply.status)
            await sent.start(reply.status, reply.headers)
            is_plain = reply.headers.get("content-encoding", "identity") == "identity"
            hidden = UsageFilter() if exchange.hides_usage and sent.streams and is_plain else None
            is_new = exchange.is_kept
            async for data in reply.chunks:
                exchange.keep(data)
                if is_new:
                    is_new = issued.look(exchange)
                await sent.body(data if hidden is None else hidden.feed(data))
            await sent.end(b"" if hidden is None else hidden.end())

    async def _cross(self, exchange: Exchange, translation: Translation, sent: Sent) -> None:
        """Relay an answer of another API."""
        route = exchange.route
        async with route.connection.send(route.path, exchange.body, exchange.forwarded) as reply:
            exchange.status, exchange.headers = reply.status, reply.headers
            refuse_redirect(route, reply.status)
            answer = CrossedAnswer(exchange, translation)
            try:
                async for data in reply.chunks:
                    exchange.keep(data)
                    await sent.crossed(answer, answer.feed(data))
                await sent.crossed(answer, answer.end())
            except ProviderError as error:
                if not answer.has_failed:
                    exchange.error = error
                if not sent.began:
                    await sent.refuse(self._dialect, error, SPENT if answer.heard else None)
                    return
                await sent.body(answer.fail(error))
            await sent.end()

    async def _count(self, exchange: Exchange, translation: Translation, sent: Sent) -> None:
        """A count of tokens: the upstream's, or an estimate if it has none."""
        route, asked, tokens = exchange.route, count_request(translation), None
        headers = headers_of(translation, route.key)
        if asked is not None:
            path, body = asked
            async with route.connection.send(f"{route.path}{path}", body, headers) as reply:
                tokens = tokens_in(await reply.whole()) if reply.status == 200 else None
        made = {"content-type": "application/json"}
        if tokens is None:
            made[ESTIMATE_HEADER], tokens = "true", estimate(translation, route.facts)
        await sent.start(200, made)
        await sent.body(counted(self._dialect, tokens))
        await sent.end()


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """What every door of one server shares."""

    find: Callable[[Dialect, str, str], Awaitable[Route]]
    """Where requests of a user to a model go. Raises `NotFound`."""
    issuer: Callable[[str | None], Awaitable[Route]]
    """Where the responses of an account are. Raises `NotFound`."""
    recorder: LineRecorder
    managed: ManagedContext
    clock: Clock
    facts: Callable[[str, str], ModelFacts]
    """What is known of a model of a provider."""
    names: tuple[str, ...] = ()
    """Models that the upstreams name, for lists."""
    adds_markers: bool = True
    """Whether a Messages request without markers gets some."""
    asks_for_usage: bool = True
    """Whether a Chat stream is asked for its bill."""
    salt: bytes | None = None
    """The secret by which users' caches at a provider are kept apart; None: they are not."""
    storage: LineStorage = LineStorage.FULL
    """What is stored of the requests of a client whose key does not say."""
    refuses_loops: bool = False
    """Whether requests of a client that loops are refused."""


CONTEXT_HEADER = "x-lamella-context"
"""`manage`: keep the history of this request no longer than it pays; `off`: send it on as it is."""


def manages(request: Request, storage: LineStorage) -> bool:
    """Whether the history of a request is managed: as its header says, else as the options of its key.

    Raises `InvalidRequest` for another word, and if nothing of the key's requests is stored that could be summarised.
    """
    options = request.scope["state"]["identity"].options
    word = request.headers.get(CONTEXT_HEADER)
    if word not in (None, "manage", "off"):
        raise InvalidRequest(
            f"The header X-Lamella-Context is “{word[:40]}”, and has to be manage or off.",
            hint="Send X-Lamella-Context: manage, or leave it out.",
            param="X-Lamella-Context",
        )
    if word == "off" or (word is None and options.context is not ContextOption.MANAGE):
        return False
    if storage is not LineStorage.FULL:
        raise InvalidRequest(
            "The context of this key's requests can't be managed, because their texts are not stored.",
            hint="Set the storage of the key to full, or its context to off.",
            param="X-Lamella-Context",
        )
    return True


MARKERS_HEADER = "x-lamella-markers"
"""`off`: no marker is added to this request."""


CACHE_KEY_HEADER = "x-lamella-cache-key"
"""`off`: no key of a cache is added to this request."""


async def _unsealed(dialect: Dialect, body: bytes) -> bytes:
    """The body without thinking under a seal of this server. One that can't be read is for the upstream to refuse."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        aside = len(body) > LONG_BYTES
        return await asyncio.to_thread(without_own_seals, dialect, body) if aside else without_own_seals(dialect, body)
    return body


async def _separate(exchange: Exchange, salt: bytes) -> None:
    """Add the key of the user's own cache, if the upstream takes one and its model is known to have it."""
    route = exchange.route
    has_key = route.takes_cache_keys and route.facts.known and route.facts.markers is Markers.OPENAI
    if has_key and exchange.dialect in (Dialect.CHAT, Dialect.RESPONSES):
        told = (salt, exchange.caller.user_id, exchange.session, exchange.dialect, exchange.body)
        aside = len(exchange.body) > LONG_BYTES
        exchange.body = await asyncio.to_thread(_keyed, *told) if aside else _keyed(*told)
        exchange.has_added_key = True


def _keyed(salt: bytes, owner: str, session: str | None, dialect: Dialect, body: bytes) -> bytes:
    return with_cache_key(body, cache_key(salt, owner, session, dialect, body))


async def read_body(request: Request) -> bytes:
    """The whole body. Raises `PayloadTooLarge`."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise PayloadTooLarge(f"The body is longer than {MAX_BODY_BYTES // 1_000_000} MB.", hint="Send less.")
        pieces.append(piece)
    return b"".join(pieces)


def fields_of(body: bytes) -> dict[str, Json]:
    """The fields of a body without its prompt. Raises `InvalidRequest` for what is no JSON object."""
    try:
        return fields_but(body, PROMPT_FIELDS)
    except msgspec.DecodeError as error:
        unread: Exception = error
    except (UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(error) from None
    try:
        return decode_mended(body)  # it may be for the upstream to refuse, or to take
    except msgspec.DecodeError:
        raise _unreadable(unread) from None


def _unreadable(error: Exception) -> InvalidRequest:
    return InvalidRequest(f"The body can't be read: {error}.", hint="Send one JSON object.")


def model_of(fields: Mapping[str, Json]) -> str:
    """The model that a body names. Raises `InvalidRequest` if it names none."""
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidRequest("The request names no model.", hint="Send “model”.", param="model")
    if "\0" in model:
        raise InvalidRequest("The name of the model holds NUL (U+0000).", hint="Send its name.", param="model")
    return model


def client_headers(request: Request, key: str) -> dict[str, str]:
    """The caller's headers as they go on, with our key where the caller had its own."""
    named = set(request.headers.get("connection", "").lower().replace(",", " ").split())
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        if name not in _CONNECTION and name not in named and not name.startswith(_OURS):
            value = _as_sent(value)
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if "x-api-key" in request.headers:
        headers["x-api-key"] = key
    else:
        headers["authorization"] = f"Bearer {key}"
    headers["accept-encoding"] = "identity"
    return headers


def refuse_redirect(route: Route, status: int) -> None:
    """Raises `ProviderError` for a redirect: a library that follows it would pass this server by, with its key."""
    if status in _REDIRECTS:
        raise of_status(route.connection.provider, status, "", "", None)


def _as_sent(value: str) -> str:
    """A header's value as the upstream gets the same bytes: it is read as Latin-1 here, and written as UTF-8."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


async def cancel_on_leaving(request: Request, answering: asyncio.Future[None]) -> None:
    """Ends the answer when the client leaves."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    answering.cancel()


SEND_BODY = "send_body"
"""Where the state of a request has the server's own `send`."""


class Sent:
    """What was sent to the client so far; `at` is when the last of it was, by the event loop's clock.

    `send_body` is what pieces of the body are given to, if that is not `send`.
    """

    def __init__(self, send: Send, send_body: Send | None = None) -> None:
        self._send = send
        self._send_body = send_body or send
        self._time = asyncio.get_running_loop().time
        self.began = False
        self.streams = False
        self.at = self._time()
        self._end = b""
        """The last two bytes that were sent."""

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The upstream's status and headers."""
        self.began = True
        self.streams = headers.get("content-type", "").startswith("text/event-stream")
        raw = [
            (name.lower().encode("latin-1"), value.encode("utf-8", "surrogateescape"))
            for name, value in headers.items()
            if name.lower() not in _HELD
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def body(self, data: bytes) -> None:
        """A piece of the body, as it came."""
        if data:
            self.at = self._time()
            self._end = data[-2:] if len(data) > 1 else (self._end + data)[-2:]
            await self._send_body({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """The end of the body, with its last bytes."""
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def crossed(self, answer: CrossedAnswer, data: bytes) -> None:
        """A piece of an answer that was translated; with the first its head."""
        if data and not self.began:
            await self.start(answer.status, answer.headers)
        await self.body(data)

    async def refuse(self, dialect: Dialect, error: LamellaError, headers: Mapping[str, str] | None = None) -> None:
        """An error of ours in the dialect's shape, before anything was sent."""
        retries = {**retry_after(error)}
        if isinstance(error, ProviderError):
            may_be_spent = isinstance(error, ProviderTimeout)
            retries = {"x-should-retry": "true" if error.retryable and not may_be_spent else "false"}
        if isinstance(error, ClientLoops):
            retries = {"x-should-retry": "false", "retry-after": f"{SILENCE.total_seconds():.0f}"}
        await self.start(status_of(error), {"content-type": "application/json", **retries, **(headers or {})})
        await self.body(error_body(dialect, error))
        await self.end()

    async def fail(self, dialect: Dialect, error: ProviderError, begun: bytes) -> None:
        """An upstream that could not be reached, or broke off: an answer of ours, or an event at the end of a stream.

        An answer that is no stream is broken off, so that the client does not take it for whole; so is a stream within
        an event, which would swallow ours. The server closes a connection whose answer was not ended.
        """
        if not self.began:
            await self.refuse(dialect, error)
        elif self.streams and self._end[-1:] in (b"", b"\n", b"\r"):
            blank = b"" if self._end in (b"", b"\n\n") else b"\n"
            await self.body(blank + error_event(dialect, error, begun))
            await self.end()
