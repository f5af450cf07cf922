"""Answers of the engine in the API of their client: Chat Completions, Messages or Responses.

A client names an agent as its model (`agent:NAME`) and sends its whole history, or names a conversation in the header
`X-Conversation-Id` and sends what is new; `new` begins one.

The answer begins with its first text or thought, so that a request that fails before it has the status of its error. A
client that leaves stops its turn: nobody would read the rest, and it costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.types import Send

from lamella.app.agent_models import PREFIX, AgentRequest, BegunAnswer
from lamella.app.app import App
from lamella.core.access import Identity
from lamella.core.errors import InvalidRequest, LamellaError, NotFound, ProviderError
from lamella.core.json import Json, decode_object, encode, encode_text
from lamella.core.models import effort_named
from lamella.core.records import UNCHANGED, AnswerChoices, Choices, Unchanged
from lamella.gateway.answer_blocks import AnswerWriter
from lamella.gateway.canonical import ClientRequest
from lamella.gateway.client_settings import refused
from lamella.gateway.dialects import Dialect
from lamella.gateway.engine_answer import EngineAnswer
from lamella.gateway.histories import ClientHistory, read_history
from lamella.gateway.matching import client_of, session_of
from lamella.gateway.reading import read_request
from lamella.gateway.recorder import LONG_BYTES
from lamella.gateway.relay import Sent, cancel_on_leaving
from lamella.gateway.writing import writer
from lamella.server.routes.openai_request import MOST_STOPS
from lamella.server.routing import JSON
from lamella.server.sse import EVENT_STREAM, HEADERS, STILL_THERE

CONVERSATION_HEADER, NEW, CONVERSATION = "x-conversation-id", "new", "conv_"
"""The header that names the conversation of a request and of an answer; the word that begins one; how ids begin."""

THINKING_HEADER = "x-lamella-thinking"
"""`off`: the answer comes without the agent's thinking."""

RESPONSE = "resp_"
"""How the ids of responses begin."""

PLACES = frozenset({"conversation", "previous_response_id"})
"""The fields of a Responses body that name a place."""

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
    if len(settings.stop) > MOST_STOPS:
        raise refused("stop", f"there are {len(settings.stop)} texts, and {MOST_STOPS} are the most", "Send fewer.")
    if settings.verbosity not in ("", "medium"):
        raise refused("verbosity", "an agent answers as it is set up")
    if settings.answer_format is not None and "schema" not in settings.answer_format:
        raise refused("response_format", "an answer can't be made a JSON object", "Send a JSON schema.")
    for name in (change.partition(":")[0] for change in asked.changes):
        if name in body and name not in SAYS_NOTHING and body[name] not in AS_EVER.get(name, ()):
            raise refused(name, "an agent can't follow this field")
    effort = settings.effort
    return Choices(
        thinking_effort=effort_named(EFFORTS.get(effort, effort)) if effort is not None else None,
        answer=AnswerChoices(
            max_output=settings.max_output,
            tool_choice=f"function {settings.tool}" if settings.tool else settings.tool_choice,
            parallel_calls=settings.parallel_calls,
            temperature=settings.temperature,
            top_p=settings.top_p,
            schema=encode_text(settings.answer_format) if settings.answer_format is not None else "",
            stop=tuple(text for text in settings.stop if text),
        ),
    )


def _read(dialect: Dialect, body: bytes) -> tuple[dict[str, Json], ClientRequest, ClientHistory]:
    """A body: its fields, the request and its history. Raises `InvalidRequest`."""
    try:
        fields = decode_object(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The body can't be read: {error}.", hint="Send one JSON object.") from None
    read = read_request(dialect, {k: v for k, v in fields.items() if k not in PLACES}, tags_system=False)
    return fields, read, read_history(read.messages)


@dataclass(frozen=True, slots=True)
class _Named:
    """Where a client wants its answer: in a conversation, None for a new one, after a run of it."""

    conversation_id: str | None
    after: str | Unchanged = UNCHANGED


def is_placed(request: Request) -> bool:
    """Whether a header names the conversation of a request. Other values of it are a client's own."""
    header = request.headers.get(CONVERSATION_HEADER, "")
    return header == NEW or header.startswith(CONVERSATION)


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
            _, asked, _ = await self._asked(body)
            if asked.agent is None:
                raise refused("model", "only a request to an agent is counted here", "Name an agent.")
            tokens = await self._app.agents.count(self._identity, asked.agent, asked)
        except LamellaError as error:
            await self.sent.refuse(self.dialect, error)
            return
        kind = {"object": "response.input_tokens"} if self.dialect is Dialect.RESPONSES else {}
        await self.sent.start(200, {"content-type": JSON})
        await self.sent.end(encode({**kind, "input_tokens": tokens}))

    async def _asked(self, body: bytes) -> tuple[ClientRequest, AgentRequest, _Named | None]:
        if len(body) > LONG_BYTES:
            fields, read, history = await asyncio.to_thread(_read, self.dialect, body)
        else:
            fields, read, history = _read(self.dialect, body)
        named = await self._named(fields)
        agents, caller = self._app.agents, self._identity.caller
        agent = await agents.find(caller, read.model) if is_agent(read.model) else None
        return (
            read,
            AgentRequest(
                agent=agent,
                history=history,
                instructions="\n\n".join(read.instructions),
                dialect=self.dialect,
                client=client_of(self.request.headers),
                session=session_of(self.request.headers, fields),
                choices=choices_of(read, fields),
                tools=read.tools,
                model=read.model,
            ),
            named,
        )

    async def _named(self, fields: Mapping[str, Json]) -> _Named | None:
        """Where the answer belongs; None for one to a whole history. Raises `NotFound`."""
        previous, conversation = fields.get("previous_response_id"), fields.get("conversation")
        if isinstance(conversation, Mapping):
            conversation = conversation.get("id")
        for name, value in (("previous_response_id", previous), ("conversation", conversation)):
            if fields.get(name) is not None and not isinstance(value, str):
                raise refused(name, "it is no id", "Send it as it was given.")
        if isinstance(previous, str) and previous:
            if conversation is not None:
                raise refused("previous_response_id", "the request names a conversation too", "Leave one out.")
            return await self._after(previous)
        header = self.request.headers.get(CONVERSATION_HEADER, "")
        if isinstance(conversation, str) or header.startswith(CONVERSATION):
            return _Named(conversation if isinstance(conversation, str) else header)
        return _Named(None) if header == NEW else None

    async def _after(self, previous: str) -> _Named:
        """The place after a response. Raises `NotFound`, also for one that was deleted."""
        app, caller = self._app, self._identity.caller
        stored = await app.store.responses.response(caller, previous)
        if previous.startswith(RESPONSE) and (stored is None or not stored.deleted):
            with suppress(NotFound):
                turn = await app.store.turns.turn(caller, f"turn_{previous.removeprefix(RESPONSE)}")
                return _Named(turn.conversation_id, turn.run.id)
        raise NotFound(f"Previous response with id '{previous[:80]}' not found.", param="previous_response_id")

    async def _begin(self, asked: AgentRequest, named: _Named | None) -> BegunAnswer:
        agents = self._app.agents
        if named is not None:
            return await agents.begin_in(self._identity, asked, named.conversation_id, named.after)
        if asked.agent is None:
            raise NotFound(f"There is no agent “{asked.model[:80]}”.", param="model")
        return await agents.begin(self._identity, asked.agent, asked)

    async def _answer(self, body: bytes) -> None:
        read, asked, named = await self._asked(body)
        shows_thinking = _shows_thinking(self.request) and not read.settings.hides_thinking
        beginning = asyncio.ensure_future(self._begin(asked, named))
        try:
            begun = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await self._stop(await beginning)
            raise
        written = self._writer(read, begun)
        try:
            answer, held = await self._follow(begun, written, read, shows_thinking=shows_thinking)
        except asyncio.CancelledError:
            await self._stop(begun)
            raise
        except LamellaError as error:  # its packets can't be read any more
            if not self.sent.began:
                raise
            await self.sent.end(written.fail(error))
            return
        # Before the client has it all: its next request may be here in a moment. From here on nothing stops the turn.
        seen = () if answer.error else answer.seen
        await asyncio.shield(self._app.agents.ended(self._identity.caller, begun, seen))
        if read.settings.streams and not answer.error:
            await self._send(begun, held)
        await self._finish(begun, written, answer)

    async def _stop(self, begun: BegunAnswer) -> None:
        """Stop a turn whose client left, and note its bill."""
        await self._app.chat.stop(self._identity.caller, begun.turn_id)
        async for _ in self._app.packets(begun.turn_id, self._identity):
            pass
        await self._app.agents.ended(self._identity.caller, begun, ())

    def _writer(self, read: ClientRequest, begun: BegunAnswer) -> AnswerWriter:
        name = {Dialect.MESSAGES: "msg", Dialect.CHAT: "chatcmpl"}.get(self.dialect, "resp")
        return writer(
            self.dialect,
            read.model,
            f"{name}_{begun.turn_id.partition('_')[2]}",
            created=int(self._app.clock.now().timestamp()),
            asks_for_usage=read.settings.asks_for_usage,
            forms=read.forms,
        )

    async def _follow(
        self, begun: BegunAnswer, written: AnswerWriter, read: ClientRequest, *, shows_thinking: bool
    ) -> tuple[EngineAnswer, bytes]:
        """Write a turn as it comes, to its end. Returns its answer, and what is written of it and was not sent."""
        answer, held, streams = EngineAnswer(shows_thinking=shows_thinking), b"", read.settings.streams
        beating = asyncio.create_task(self._beat(begun)) if streams else None
        try:
            async for packet in self._app.packets(begun.turn_id, self._identity):
                held += b"".join([written.feed(delta) for delta in answer.take(packet)])
                if streams and answer.seen and held:
                    await self._send(begun, held)
                    held = b""
        finally:
            if beating is not None:
                beating.cancel()
        return answer, held

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


def _shows_thinking(request: Request) -> bool:
    """Whether a client gets the thinking. Raises `InvalidRequest` for another word in its header."""
    word = request.headers.get(THINKING_HEADER, "show")
    if word not in ("show", "off"):
        raise InvalidRequest(
            f"The header X-Lamella-Thinking is “{word[:40]}”, and has to be show or off.",
            hint="Send X-Lamella-Thinking: off, or leave it out.",
            param="X-Lamella-Thinking",
        )
    return word == "show"


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
