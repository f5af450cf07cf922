"""Answers of agents, in the API of their client: `model: "agent:NAME"` at Chat Completions, Messages and Responses.

The answer begins with its first text, so that a request that fails before it has the status of its error. A client
that leaves stops its turn: nobody would read the rest, and it costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.types import Send

from lamella.app.agent_models import PREFIX, AgentRequest, BegunAnswer
from lamella.app.app import App
from lamella.core.access import Identity
from lamella.core.errors import InvalidRequest, LamellaError, ProviderError
from lamella.core.json import Json, decode_object, encode
from lamella.core.models import effort_named
from lamella.core.records import Choices
from lamella.gateway.answer_blocks import AnswerWriter
from lamella.gateway.canonical import ClientRequest
from lamella.gateway.client_settings import refused
from lamella.gateway.dialects import Dialect
from lamella.gateway.engine_answer import EngineAnswer
from lamella.gateway.histories import read_history
from lamella.gateway.matching import client_of, session_of
from lamella.gateway.reading import read_request
from lamella.gateway.relay import Sent, cancel_on_leaving
from lamella.gateway.writing import writer
from lamella.server.routing import JSON
from lamella.server.sse import EVENT_STREAM, HEADERS, STILL_THERE

CONVERSATION_HEADER = "x-conversation-id"
"""The conversation of an answer."""

SAYS_NOTHING = frozenset(
    {
        "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "metadata",
        "store", "service_tier", "client_metadata", "cache_control", "context_management", "anthropic_version",
        "anthropic_beta", "betas", "inference_geo",
    }
)  # fmt: skip
"""Fields that only concern a provider: the agent's model is called as the deployment has it, and cached by its plan."""

AS_EVER: Mapping[str, tuple[Json, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "truncation": ("disabled", "auto"),
    "prediction": (),
}
"""Fields with values that match what is done anyway."""

EFFORTS = {"none": "off", "minimal": "low", "max": "xhigh"}
"""Efforts of the APIs that are called otherwise here."""


def is_agent(model: object) -> bool:
    """Whether a model's name is an agent's."""
    return isinstance(model, str) and unquote(model).strip().casefold().startswith(PREFIX)


def choices_of(asked: ClientRequest, body: Mapping[str, Json]) -> Choices:
    """How a request is to be answered. Raises `InvalidRequest` for a field that can't be followed."""
    settings = asked.settings
    cant = {
        "temperature": settings.temperature not in (None, 1),
        "top_p": settings.top_p not in (None, 1),
        "stop": bool(settings.stop),
        "tool_choice": settings.tool_choice != "auto",
        "tools": bool(asked.tools),
        "response_format": settings.answer_format is not None,
        "verbosity": settings.verbosity not in ("", "medium"),
    }
    for name in (name for name, is_set in cant.items() if is_set):
        raise refused(name, "an agent answers as it is set up")
    for name in (change.partition(":")[0] for change in asked.changes):
        if name in body and name not in SAYS_NOTHING and body[name] not in AS_EVER.get(name, ()):
            raise refused(name, "an agent can't follow this field")
    effort = settings.effort
    return Choices(thinking_effort=effort_named(EFFORTS.get(effort, effort)) if effort is not None else None)


@dataclass(frozen=True, slots=True)
class AgentDoor:
    """Answers one request of a client. Gives everything that leaves to `sent`."""

    request: Request
    dialect: Dialect
    sent: Sent

    @property
    def _app(self) -> App:
        app: App = self.request.scope["state"]["lamella"]
        return app

    @property
    def _identity(self) -> Identity:
        identity: Identity = self.request.scope["state"]["identity"]
        return identity

    async def answer(self, body: bytes) -> None:
        """Answer a body. The turn is stopped when the client leaves."""
        answering = asyncio.ensure_future(self._answer(body))
        leaving = asyncio.ensure_future(cancel_on_leaving(self.request, answering))
        try:
            await answering
        except asyncio.CancelledError:
            if not leaving.done():
                raise
        except LamellaError as error:
            await self.sent.refuse(self.dialect, error)
        finally:
            answering.cancel()
            leaving.cancel()

    async def count(self, body: bytes) -> None:
        """Tell how many tokens the request of a body would have."""
        try:
            _, asked = await self._asked(body)
            tokens = await self._app.agents.count(self._identity, asked)
        except LamellaError as error:
            await self.sent.refuse(self.dialect, error)
            return
        kind = {"object": "response.input_tokens"} if self.dialect is Dialect.RESPONSES else {}
        await self.sent.start(200, {"content-type": JSON})
        await self.sent.end(encode({**kind, "input_tokens": tokens}))

    async def _asked(self, body: bytes) -> tuple[ClientRequest, AgentRequest]:
        try:
            fields = decode_object(body)
            read = read_request(self.dialect, fields, tags_system=False)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidRequest(f"The body can't be read: {error}.", hint="Send one JSON object.") from None
        agent = await self._app.agents.find(self._identity.caller, read.model)
        return read, AgentRequest(
            agent=agent,
            history=read_history(read.messages),
            instructions="\n\n".join(read.instructions),
            dialect=self.dialect,
            client=client_of(self.request.headers.get("user-agent", "")),
            session=session_of(self.request.headers, fields),
            choices=choices_of(read, fields),
        )

    async def _answer(self, body: bytes) -> None:
        read, asked = await self._asked(body)
        beginning = asyncio.ensure_future(self._app.agents.begin(self._identity, asked))
        try:
            begun = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await self._stop(await beginning)
            raise
        try:
            await self._follow(read, begun)
        except asyncio.CancelledError:
            await self._stop(begun)
            raise

    async def _stop(self, begun: BegunAnswer) -> None:
        """Stop a turn whose client left, and note its bill."""
        await self._app.chat.stop(self._identity.caller, begun.turn_id)
        async for _ in self._app.packets(begun.turn_id, self._identity):
            pass
        await self._app.agents.ended(self._identity.caller, begun, ())

    async def _follow(self, read: ClientRequest, begun: BegunAnswer) -> None:
        """Write the answer of a turn as it comes."""
        settings, suffix = read.settings, begun.turn_id.partition("_")[2]
        name = {Dialect.MESSAGES: "msg", Dialect.CHAT: "chatcmpl"}.get(self.dialect, "resp")
        written = writer(
            self.dialect,
            read.model,
            f"{name}_{suffix}",
            created=int(self._app.clock.now().timestamp()),
            asks_for_usage=settings.asks_for_usage,
            forms=read.forms,
        )
        answer, held = EngineAnswer(), b""
        beating = asyncio.create_task(self._beat(begun)) if settings.streams else None
        try:
            async for packet in self._app.packets(begun.turn_id, self._identity):
                held += b"".join([written.feed(delta) for delta in answer.take(packet)])
                if settings.streams and answer.seen and held:
                    await self._send(begun, held)
                    held = b""
        finally:
            if beating is not None:
                beating.cancel()
        # Before the client has it all: its next request may be here in a moment.
        await self._app.agents.ended(self._identity.caller, begun, () if answer.error else answer.seen)
        if settings.streams and not answer.error:
            await self._send(begun, held)
        await self._finish(begun, written, answer)

    async def _finish(self, begun: BegunAnswer, written: AnswerWriter, answer: EngineAnswer) -> None:
        if answer.error is not None and not self.sent.began:
            await self.sent.refuse(self.dialect, answer.error, _failed(answer.error))
        elif answer.error is not None:
            await self.sent.end(written.fail(answer.error))
        elif self.sent.began:
            await self.sent.end(written.end())
        else:
            written.end()
            await self.sent.start(200, {"content-type": JSON, CONVERSATION_HEADER: begun.conversation_id})
            await self.sent.end(encode(written.whole()))

    async def _send(self, begun: BegunAnswer, data: bytes) -> None:
        if not self.sent.began:
            headers = {"content-type": EVENT_STREAM, **HEADERS, CONVERSATION_HEADER: begun.conversation_id}
            await self.sent.start(200, headers)
        await self.sent.body(data)

    async def _beat(self, begun: BegunAnswer) -> None:
        """Send a comment after each silence, so that nobody on the way takes the connection for dead."""
        silence: float = self.request.scope["state"]["silence"]
        while True:
            quiet = asyncio.get_running_loop().time() - self.sent.at
            if quiet < silence:
                await asyncio.sleep(silence - quiet)
            else:
                await self._send(begun, STILL_THERE)


def _failed(error: LamellaError) -> Mapping[str, str]:
    """The headers of an answer that failed: it was retried here already."""
    headers = {"x-should-retry": "false"}
    if isinstance(error, ProviderError) and error.retry_after is not None:
        headers["retry-after"] = f"{error.retry_after:g}"
    return headers


async def answered(request: Request, dialect: Dialect, body: bytes, send: Send) -> None:
    """Answer a request to an agent."""
    await AgentDoor(request, dialect, Sent(send)).answer(body)


async def counted(request: Request, dialect: Dialect, body: bytes, send: Send) -> None:
    """Count a request to an agent."""
    await AgentDoor(request, dialect, Sent(send)).count(body)
