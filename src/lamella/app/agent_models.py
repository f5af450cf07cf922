"""Agents as models: a client names `agent:NAME`, sends its whole history, and gets the agent's answer.

The history leads to the answer that the client saw last (`gateway.histories`). The engine goes on from that turn, with
all of its steps, so the provider reads the same prefix from its cache. What is not known of the history is stored as
turns first. If the conversation answers another request, or nothing is known, the history becomes a conversation of its
own. These conversations are listed with those of other clients.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from urllib.parse import unquote

from lamella.app.conversations import Conversations, NewConversation
from lamella.app.providers import Models
from lamella.chat import Chat, OutgoingMessage
from lamella.chat.mailbox import in_progress
from lamella.chat.message import AT_ONCE, Message
from lamella.core.access import Identity
from lamella.core.agents import Agent, DynamicBlock
from lamella.core.clock import Clock
from lamella.core.counting import count_tokens
from lamella.core.errors import HeadMoved, InvalidRequest, LamellaError, NotFound, TurnInProgress
from lamella.core.ids import Ids
from lamella.core.messages import AnswerPart, Image, Step, StopReason, Text, ToolCall, ToolResult
from lamella.core.records import (
    AnswerPlace,
    Caller,
    Choices,
    ImportedTurn,
    Line,
    NewRun,
    NewTurn,
    PageQuery,
    Place,
    TurnRecord,
)
from lamella.gateway.histories import ClientHistory, ToldStep, ToldTurn
from lamella.gateway.matching import title_of_message
from lamella.knowledge.file_uploads import FileUploads
from lamella.storage import Store

PREFIX = "agent:"
"""The beginning of a model's name that is an agent's."""

INSTRUCTED = "the instructions of the client"
"""The reason of a block of dynamic context that holds a client's system prompt."""

PICTURE_ONLY = "(See the picture.)"
"""The text of a message that has pictures alone."""

NO_RESULT = "No result came."
"""Stands for the result of a call that a client's history leaves open."""

AGAIN_WITHIN = timedelta(minutes=10)
"""A history without an answer that comes again within this time is the same request once more."""


@dataclass(frozen=True, slots=True)
class AgentModel:
    """An agent as a model. `name` is unique: the agent's name, or its id if another agent has the same name."""

    name: str
    agent: Agent


def agent_models(agents: Sequence[Agent]) -> tuple[AgentModel, ...]:
    """The models of these agents."""
    named = [agent.name.strip().casefold() for agent in agents]
    alone = [named.count(name) == 1 for name in named]
    return tuple(
        AgentModel(PREFIX + (agent.name.strip() if is_alone else agent.id), agent)
        for agent, is_alone in zip(agents, alone, strict=True)
    )


def found_agent(agents: Sequence[Agent], model: str) -> Agent:
    """The agent that a model's name means: its id, or its name in any case, also percent-encoded.

    Raises `NotFound` if there is none, or if several have the name in this spelling.
    """
    for asked in dict.fromkeys((model.removeprefix(PREFIX).strip(), unquote(model).removeprefix(PREFIX).strip())):
        by_id = [agent for agent in agents if agent.id == asked]
        exact = [agent for agent in agents if agent.name.strip() == asked]
        alike = [agent for agent in agents if agent.name.strip().casefold() == asked.casefold()]
        found = by_id or (exact if len(exact) == 1 else alike)
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(PREFIX + agent.id for agent in found)
            hint = f"Name one by its id: {ids}."
            raise NotFound(f"Several agents are named “{asked[:80]}”.", hint=hint, param="model")
    shown = model.removeprefix(PREFIX)[:80]
    raise NotFound(f"There is no agent “{shown}”.", hint="GET /v1/models lists your agents.", param="model")


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A request of a client to an agent. `instructions` are its system prompt. `client` is its program, `session` the
    id by which it names its work, `dialect` the API that it speaks.
    """

    agent: Agent
    history: ClientHistory
    instructions: str
    dialect: str
    client: str
    session: str | None = None
    choices: Choices = field(default_factory=Choices)


@dataclass(frozen=True, slots=True)
class BegunAnswer:
    """An answer that was begun: its turn."""

    request: AgentRequest
    conversation_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class _Start:
    """Where an answer begins: a place, the turns to store after it, and the message."""

    conversation_id: str
    place: Place
    imported: tuple[ToldTurn, ...]
    newest: ToldTurn


@dataclass(frozen=True, slots=True)
class AgentModels:
    """Answers clients as agents."""

    store: Store
    conversations: Conversations
    chat: Chat
    intake: FileUploads
    models: Models
    clock: Clock
    ids: Ids

    async def listed(self, caller: Caller) -> tuple[AgentModel, ...]:
        """The caller's agents as models, oldest first."""
        return agent_models(await self._agents(caller))

    async def find(self, caller: Caller, model: str) -> Agent:
        """The agent that a model's name means. Raises `NotFound`."""
        return found_agent(await self._agents(caller), model)

    async def begin(self, identity: Identity, request: AgentRequest) -> BegunAnswer:
        """Begin the answer to a history. Raises as `Sender.send` does, but never because a conversation is busy."""
        known = await self._known(identity.caller, request)
        if known is not None:
            place, end = known
            imported, newest = _split(request.history.after(end))
            start = _Start(place.conversation_id, place.place, imported, newest)
            try:
                return await self._begin(identity, request, start)
            except (TurnInProgress, HeadMoved):
                pass  # it answers another request: this one gets a conversation of its own
        imported, newest = _split(request.history.after(0))
        conversation_id = await self._conversation(identity.caller, request, (*imported, newest)[0].text)
        try:
            return await self._begin(identity, request, _Start(conversation_id, Place(), imported, newest))
        except LamellaError:
            await self.chat.delete(identity.caller, conversation_id)
            raise

    async def count(self, identity: Identity, request: AgentRequest) -> int:
        """The tokens of the request that the agent's model would get. What is stored for it is removed again."""
        caller, known = identity.caller, await self._known(identity.caller, request)
        if known is not None:
            imported, newest = _split(request.history.after(known[1]))
            if not imported:
                with suppress(TurnInProgress):
                    return await self._count(
                        identity, request, _Start(known[0].conversation_id, known[0].place, (), newest)
                    )
        imported, newest = _split(request.history.after(0))
        conversation_id = await self._conversation(caller, request, (*imported, newest)[0].text)
        try:
            return await self._count(identity, request, _Start(conversation_id, Place(), imported, newest))
        finally:
            await self.chat.delete(caller, conversation_id)

    async def _count(self, identity: Identity, request: AgentRequest, start: _Start) -> int:
        message = await self._placed(identity.caller, request, start)
        if message.text.startswith("/"):
            message = replace(message, text=f"/{message.text}")  # else it would be a command
        return (await self.chat.sender.preview(identity, start.conversation_id, message)).record.estimate

    async def _known(self, caller: Caller, request: AgentRequest) -> tuple[AnswerPlace, int] | None:
        """The place of the newest answer that is known, and the number of messages up to it."""
        answers, opening = request.history.answers, request.history.opening
        found = await self.store.histories.answers(
            caller, request.agent.id, [answer.key for answer in answers] or [opening]
        )
        for answer in reversed(answers):
            if answer.key in found:
                return found[answer.key], answer.end
        place = found.get(opening)
        is_again = place is not None and self.clock.now() - place.at < AGAIN_WITHIN
        return (place, 0) if place is not None and is_again else None

    async def _begin(self, identity: Identity, request: AgentRequest, start: _Start) -> BegunAnswer:
        caller = identity.caller
        message = await self._placed(caller, request, start)
        sent = OutgoingMessage(message, AT_ONCE, is_literal=True)
        done = await self.chat.sender.send(identity, start.conversation_id, sent)
        if not isinstance(done, str):
            raise in_progress(None)
        if request.history.opening:
            await self._keep(caller, request, request.history.opening, start.conversation_id, Place())
        return BegunAnswer(request, start.conversation_id, done)

    async def _placed(self, caller: Caller, request: AgentRequest, start: _Start) -> Message:
        """The newest message after what was sent before it, which is stored if it is not known."""
        place = start.place
        message = await self._message(caller, request, start.newest)
        if start.imported:
            turns = [await self._imported(caller, request, start.conversation_id, one) for one in start.imported]
            place = await self.store.histories.import_turns(caller, request.agent.id, place, turns, self.clock.now())
        return replace(message, parent_message_id=place.run_id)

    async def _message(self, caller: Caller, request: AgentRequest, newest: ToldTurn) -> Message:
        blocks = (DynamicBlock(request.instructions, INSTRUCTED),) if request.instructions.strip() else ()
        return Message(
            text=newest.text or PICTURE_ONLY,
            file_ids=await self._pictures(caller, newest.images),
            models=(self._model(request.agent),),
            blocks=blocks,
            choices=replace(request.choices, agent_id=request.agent.id),
        )

    def _model(self, agent: Agent) -> str:
        return agent.model or self.models.default

    async def _pictures(self, caller: Caller, images: Sequence[Image]) -> tuple[str, ...]:
        """The pictures of a message as files; one that was sent before is the same file."""
        found = []
        for image in dict.fromkeys(images):
            if not image.data:
                raise InvalidRequest(
                    "An agent gets pictures as bytes, not by an address.",
                    hint="Send the picture as base64.",
                    param="messages",
                )
            name = f"picture.{image.media_type.partition('/')[2] or 'png'}"
            key = f"picture of a client {image.digest}"
            file = await self.intake.receive(caller, name, _pieces(image.data), key)
            if file.width is None:
                raise InvalidRequest("A picture can't be read.", hint=file.reason, param="messages")
            found.append(file.id)
        return tuple(found)

    async def _conversation(self, caller: Caller, request: AgentRequest, text: str) -> str:
        """A new conversation, listed as the client's."""
        title = " ".join(title_of_message(text).split())[:80] or request.agent.name
        asked = NewConversation(title=title, model=self._model(request.agent), agent_id=request.agent.id)
        made = await self.conversations.create(caller, asked)
        line = Line(
            id=made.id,
            client=request.client,
            session=request.session,
            dialect=request.dialect,
            label=PREFIX + request.agent.name,
            model=made.model,
            opening=0,
            keys=(),
            tip="",
            system="",
            answer="",
            request_id="",
            turn_id="",
            run_id="",
            begun_at=made.created_at,
            at=made.created_at,
        )
        await self.store.lines.add_line(caller, line)
        return made.id

    async def _imported(
        self, caller: Caller, request: AgentRequest, conversation_id: str, told: ToldTurn
    ) -> ImportedTurn:
        turn = NewTurn(
            id=self.ids.new("turn"),
            conversation_id=conversation_id,
            user_message_id=self.ids.new("msg"),
            runs=(NewRun(self.ids.new("run"), self._model(request.agent)),),
            text=told.text or PICTURE_ONLY,
            sent_at=self.clock.now(),
            timezone="UTC",
            tokens=count_tokens(told.text),
            file_ids=await self._pictures(caller, told.images),
        )
        steps = tuple(self._step(one, self._model(request.agent)) for one in told.steps)
        return ImportedTurn(turn, steps, told.key)

    def _step(self, told: ToldStep, model: str) -> Step:
        left = tuple(ToolResult(call.id, call.name, NO_RESULT, is_error=True) for call in told.unanswered)
        calls = any(isinstance(part, ToolCall) for part in told.parts)
        return Step(
            id=self.ids.new("msg"),
            model=model,
            parts=told.parts,
            stop_reason=StopReason.TOOL_CALLS if calls else StopReason.END_TURN,
            made_after="",
            tokens=sum(map(_tokens, told.parts)),
            results=(*told.results, *left),
        )

    async def ended(self, caller: Caller, begun: BegunAnswer, seen: Sequence[AnswerPart]) -> TurnRecord:
        """Note an answer that has ended: the client's next request finds it by what it saw."""
        turn = await self.store.turns.turn(caller, begun.turn_id)
        key = begun.request.history.with_answer(seen)
        if key:
            place = Place(turn.id, turn.run.id)
            await self._keep(caller, begun.request, key, begun.conversation_id, place)
        await self.store.lines.add_turn(caller, turn)
        return turn

    async def _keep(self, caller: Caller, request: AgentRequest, key: str, conversation_id: str, place: Place) -> None:
        now = self.clock.now()
        await self.store.histories.keep_answer(caller, request.agent.id, key, conversation_id, place, now)

    async def _agents(self, caller: Caller) -> tuple[Agent, ...]:
        found: list[Agent] = []
        query = PageQuery(limit=100, order="asc")
        while True:
            page = await self.store.library.agents(caller, query)
            found += [stored.agent for stored in page.data]
            if not page.has_more:
                return tuple(found)
            query = replace(query, after=page.data[-1].agent.id)


def _split(turns: tuple[ToldTurn, ...]) -> tuple[tuple[ToldTurn, ...], ToldTurn]:
    """The turns that are over, and the one to be answered."""
    if not turns or turns[-1].steps:
        raise InvalidRequest(
            "The last message is not the user's.", hint="End with a message of the user, or a result.", param="messages"
        )
    return turns[:-1], turns[-1]


def _tokens(part: AnswerPart) -> int:
    match part:
        case Text():
            return count_tokens(part.text)
        case ToolCall():
            return count_tokens(part.arguments) + count_tokens(part.name)
        case _:
            return 0


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data
