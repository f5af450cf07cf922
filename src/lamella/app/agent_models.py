"""Agents as models: a client names `agent:NAME`, sends its whole history, and gets the agent's answer.

The history leads to the answer that the client saw last (`gateway.histories`). The engine goes on from that turn, with
all of its steps, so the provider reads the same prefix from its cache. What is not known of the history is stored as
turns first. If the conversation answers another request, or nothing is known, the history becomes a conversation of its
own. These conversations are listed with those of other clients.
"""

from __future__ import annotations

import asyncio
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
from lamella.core.agents import Agent
from lamella.core.clock import Clock
from lamella.core.counting import count_tokens
from lamella.core.errors import HeadMoved, InvalidRequest, LamellaError, NotFound, ToolFailed, TurnInProgress
from lamella.core.ids import Ids
from lamella.core.json import digest
from lamella.core.messages import AnswerPart, Image, Step, StopReason, Text, ToolCall, ToolResult, ToolSpec
from lamella.core.records import (
    UNCHANGED,
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
    Unchanged,
)
from lamella.gateway.exchange import Recorded
from lamella.gateway.histories import ClientHistory, ToldStep, ToldTurn
from lamella.gateway.matching import Relation, title_of_message
from lamella.gateway.recorder import LineRecorder
from lamella.knowledge.file_uploads import FileUploads
from lamella.sessions.sessions import Sessions
from lamella.storage import Store
from lamella.tools.open_url import Fetcher

PREFIX = "agent:"
"""The beginning of a model's name that is an agent's."""

PICTURE_ONLY = "(See the picture.)"
"""The text of a message that has pictures alone."""

MOST_ADDRESSES = 20
"""Pictures of a message that are fetched from their addresses."""

STOPS_WITHIN = 5.0
"""Seconds that a request waits for a turn of its conversation that stops."""

AGAIN_WITHIN = timedelta(minutes=10)
"""A history without an answer that the same program sends again within this time is the same request once more."""


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
    """A request of a client. `agent` None: `model` answers, in a conversation that the client names.

    `instructions` are its system prompt, `tools` its own. `client` is its program, `session` the id by which it names
    its work, `dialect` the API that it speaks.
    """

    agent: Agent | None
    history: ClientHistory
    instructions: str
    dialect: str
    client: str
    session: str | None = None
    choices: Choices = field(default_factory=Choices)
    tools: tuple[ToolSpec, ...] = ()
    model: str = ""

    @property
    def opening(self) -> str:
        """The key of a request without an answer in it, by program, API and session; "" for others."""
        opening = self.history.opening
        told = (opening, self.client, self.dialect, self.session or "")
        return digest(*(part.encode() for part in told)) if opening else ""


@dataclass(frozen=True, slots=True)
class BegunAnswer:
    """An answer that was begun: its turn. `agent`: that of a history, which is found again."""

    request: AgentRequest
    conversation_id: str
    turn_id: str
    agent: Agent | None = None


@dataclass(frozen=True, slots=True)
class _Start:
    """Where an agent's answer begins: a place, the turns to store after it, and the message."""

    agent: Agent
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
    fetcher: Fetcher
    models: Models
    sessions: Sessions
    recorder: LineRecorder
    clock: Clock
    ids: Ids

    async def listed(self, caller: Caller) -> tuple[AgentModel, ...]:
        """The caller's agents as models, oldest first."""
        return agent_models(await self._agents(caller))

    async def find(self, caller: Caller, model: str) -> Agent:
        """The agent that a model's name means. Raises `NotFound`."""
        return found_agent(await self._agents(caller), model)

    async def begin(self, identity: Identity, agent: Agent, request: AgentRequest) -> BegunAnswer:
        """Begin an agent's answer to a history.

        Raises as `Sender.send` does, but never because a conversation is busy.
        """
        caller, start = identity.caller, None
        known = await self._known(caller, agent, request)
        if known is not None:
            place, end = known
            imported, newest = _split(request.history.after(end))
            start = _Start(agent, place.conversation_id, place.place, imported, newest)
            await self._let_stop(caller, place.conversation_id)
            try:
                return await self._begin(identity, request, start)
            except (TurnInProgress, HeadMoved):  # it answers another request: this one gets a copy
                start = await self._copied(caller, request, start)
        start = start or await self._new(caller, agent, request)
        try:
            return await self._begin(identity, request, start)
        except LamellaError:
            await self.chat.delete(identity.caller, start.conversation_id)
            raise

    async def _copied(self, caller: Caller, request: AgentRequest, start: _Start) -> _Start | None:
        """The same start in a conversation of its own; None if it can't be copied."""
        if start.place.turn_id is None:
            return None
        there = await self._conversation(caller, start.agent, request, request.history.after(0)[0].text)
        place = await self.store.histories.copy_path(caller, start.conversation_id, start.place, there)
        if place is None:
            await self.chat.delete(caller, there)
            return None
        return replace(start, conversation_id=there, place=place)

    async def _let_stop(self, caller: Caller, conversation_id: str) -> None:
        """Wait for a turn that stops: its client left, and sends its request again."""
        running = (await self.store.conversations.conversation(caller, conversation_id)).running_turn
        if running is not None and self.chat.is_stopping(running):
            with suppress(TimeoutError):
                async with asyncio.timeout(STOPS_WITHIN):
                    await self.chat.rest(conversation_id)

    async def begin_in(
        self, identity: Identity, request: AgentRequest, conversation_id: str | None, after: str | Unchanged = UNCHANGED
    ) -> BegunAnswer:
        """Begin the answer to the newest message, in a conversation that has those before it; None begins one.

        `after` is the run that it follows. Raises as `Sender.send` does, and `TurnInProgress`.
        """
        ends = request.history.answers
        newest = _split(request.history.after(ends[-1].end if ends else 0))[1]
        caller, agent = identity.caller, request.agent
        models = tuple(filter(None, (agent.model if agent is not None else request.model,)))
        choices = replace(request.choices, agent_id=agent.id) if agent is not None else request.choices
        message = replace(await self._message(caller, request, newest), models=models, choices=choices)
        there = conversation_id
        if there is None:
            asked = NewConversation(model=models[0] if models else None, agent_id=agent.id if agent else None)
            there = (await self.conversations.create(caller, asked)).id
        try:
            turn_id = await self._sent(identity, there, replace(message, parent_message_id=after))
        except LamellaError:
            if conversation_id is None:
                await self.chat.delete(caller, there)
            raise
        return BegunAnswer(request, there, turn_id)

    async def count(self, identity: Identity, agent: Agent, request: AgentRequest) -> int:
        """The tokens of the request that the agent's model would get. What is stored for it is removed again."""
        known = await self._known(identity.caller, agent, request)
        if known is not None:
            place, end = known
            imported, newest = _split(request.history.after(end))
            if not imported:
                start = _Start(agent, place.conversation_id, place.place, (), newest)
                with suppress(TurnInProgress):
                    return await self._count(identity, request, start)
        start = await self._new(identity.caller, agent, request)
        try:
            return await self._count(identity, request, start)
        finally:
            await self.chat.delete(identity.caller, start.conversation_id)

    async def _count(self, identity: Identity, request: AgentRequest, start: _Start) -> int:
        message = await self._placed(identity.caller, request, start)
        if message.text.startswith("/"):
            message = replace(message, text=f"/{message.text}")  # else it would be a command
        return (await self.chat.sender.preview(identity, start.conversation_id, message)).record.estimate

    async def _known(self, caller: Caller, agent: Agent, request: AgentRequest) -> tuple[AnswerPlace, int] | None:
        """The place of the newest answer that is known, and the number of messages up to it."""
        answers, opening = request.history.answers, request.opening
        keys = [answer.key for answer in answers] or [opening]
        found = await self.store.histories.answers(caller, agent.id, keys)
        for answer in reversed(answers):
            if answer.key in found:
                return found[answer.key], answer.end
        place = found.get(opening)
        is_again = place is not None and self.clock.now() - place.at < AGAIN_WITHIN
        return (place, 0) if place is not None and is_again else None

    async def _new(self, caller: Caller, agent: Agent, request: AgentRequest) -> _Start:
        """A new conversation, into which the whole history goes."""
        imported, newest = _split(request.history.after(0))
        conversation_id = await self._conversation(caller, agent, request, (*imported, newest)[0].text)
        return _Start(agent, conversation_id, Place(), imported, newest)

    async def _begin(self, identity: Identity, request: AgentRequest, start: _Start) -> BegunAnswer:
        caller, there = identity.caller, start.conversation_id
        turn_id = await self._sent(identity, there, await self._placed(caller, request, start))
        if request.opening:
            await self._keep(caller, start.agent, request.opening, there, Place())
        return BegunAnswer(request, there, turn_id, start.agent)

    async def _sent(self, identity: Identity, conversation_id: str, message: Message) -> str:
        done = await self.chat.sender.send(
            identity, conversation_id, OutgoingMessage(message, AT_ONCE, is_literal=True)
        )
        if not isinstance(done, str):
            raise in_progress(None)
        return done

    async def _placed(self, caller: Caller, request: AgentRequest, start: _Start) -> Message:
        """The newest message after what was sent before it, which is stored if it is not known."""
        agent, place = start.agent, start.place
        message = await self._message(caller, request, start.newest)
        if start.imported:
            told_of = (caller, start.conversation_id, self._model(agent))
            turns = [await self.imported_turn(*told_of, told) for told in start.imported]
            place = await self.store.histories.import_turns(caller, agent.id, place, turns, self.clock.now())
        choices = replace(request.choices, agent_id=agent.id)
        return replace(message, parent_message_id=place.run_id, models=(self._model(agent),), choices=choices)

    async def _message(self, caller: Caller, request: AgentRequest, newest: ToldTurn) -> Message:
        return Message(
            text=newest.text or ("" if newest.results else PICTURE_ONLY),
            file_ids=await self._pictures(caller, newest.images),
            dynamic=(request.instructions,) if request.instructions.strip() else (),
            tools=request.tools or None,
            results=newest.results,
        )

    def _model(self, agent: Agent) -> str:
        return agent.model or self.models.default

    async def _pictures(self, caller: Caller, images: Sequence[Image]) -> tuple[str, ...]:
        """The pictures of a message as files; one that was sent before is the same file."""
        found = []
        if sum(not image.data for image in images) > MOST_ADDRESSES:
            told = f"A message has {MOST_ADDRESSES} pictures by their address at most."
            raise InvalidRequest(told, hint="Send the others as base64.", param="messages")
        for image in dict.fromkeys(images):
            media_type, data = (image.media_type, image.data) if image.data else await self._fetched(image)
            name = f"picture.{media_type.partition('/')[2] or 'png'}"
            key = f"picture of a client {digest(data)}"
            file = await self.intake.receive(caller, name, _pieces(data), key)
            if file.width is None:
                raise InvalidRequest("A picture can't be read.", hint=file.reason, param="messages")
            found.append(file.id)
        return tuple(dict.fromkeys(found))  # two addresses may lead to the same bytes

    async def _fetched(self, image: Image) -> tuple[str, bytes]:
        """Media type and bytes of a picture at an address. Raises `InvalidRequest` for one that may not be opened."""
        if image.is_pdf:
            raise InvalidRequest("An agent gets no PDF by its address.", hint="Send its text.", param="messages")
        try:
            page = await self.fetcher.fetch(image.url)
        except ToolFailed as error:
            told = f"The picture at {image.url[:200]} can't be fetched: {error.message}"
            hint = f"{error.hint} " if error.hint else ""
            raise InvalidRequest(told, hint=f"{hint}Send the picture as base64.", param="messages") from None
        return (page.media_type if page.media_type.startswith("image/") else "image/png"), page.data

    async def _conversation(self, caller: Caller, agent: Agent, request: AgentRequest, text: str) -> str:
        """A new conversation, listed as the client's."""
        title = " ".join(title_of_message(text).split())[:80] or agent.name
        asked = NewConversation(title=title, model=self._model(agent), agent_id=agent.id)
        made = await self.conversations.create(caller, asked)
        line = Line(
            id=made.id,
            client=request.client,
            session=request.session,
            dialect=request.dialect,
            label=PREFIX + agent.name,
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

    async def imported_turn(self, caller: Caller, conversation_id: str, model: str, told: ToldTurn) -> ImportedTurn:
        """A turn that a client told, to be stored in this conversation. Raises `InvalidRequest` for a picture."""
        turn = NewTurn(
            id=self.ids.new("turn"),
            conversation_id=conversation_id,
            user_message_id=self.ids.new("msg"),
            runs=(NewRun(self.ids.new("run"), model),),
            text=told.text or ("" if told.results else PICTURE_ONLY),
            sent_at=self.clock.now(),
            timezone="UTC",
            tokens=count_tokens(told.text),
            file_ids=await self._pictures(caller, told.images),
            results=told.results,
        )
        return ImportedTurn(turn, tuple(self._step(one, model) for one in told.steps), told.key)

    def _step(self, told: ToldStep, model: str) -> Step:
        calls = any(isinstance(part, ToolCall) for part in told.parts)
        return Step(
            id=self.ids.new("msg"),
            model=model,
            parts=told.parts,
            stop_reason=StopReason.TOOL_CALLS if calls else StopReason.END_TURN,
            made_after="",
            tokens=sum(map(_tokens, (*told.parts, *told.results))),
            results=told.results,
        )

    async def ended(self, caller: Caller, begun: BegunAnswer, seen: Sequence[AnswerPart]) -> None:
        """Note an answer that has ended: the client's next request finds it by what it saw."""
        if begun.agent is None:
            return
        turn = await self.store.turns.turn(caller, begun.turn_id)
        key = begun.request.history.with_answer(seen)
        if key:
            await self._keep(caller, begun.agent, key, begun.conversation_id, Place(turn.id, turn.run.id))
        await self.store.lines.add_turn(caller, turn)
        if self.recorder.is_watched(caller):
            await self._tell(caller, turn)

    async def _tell(self, caller: Caller, turn: TurnRecord) -> None:
        """Give a turn's newest request to those who follow the records of clients."""
        line = await self.store.lines.line(caller, turn.conversation_id)
        if line.turn_id == turn.id and line.request_id:
            request = await self.store.requests.request(caller, line.request_id)
            why = await self.sessions.why(caller, request.id)
            relation = Relation.NEW if turn.parent.turn_id is None else Relation.NEXT
            self.recorder.tell(caller, Recorded(line, request, relation, why))

    async def _keep(self, caller: Caller, agent: Agent, key: str, conversation_id: str, place: Place) -> None:
        await self.store.histories.keep_answer(caller, agent.id, key, conversation_id, place, self.clock.now())

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


def _tokens(part: AnswerPart | ToolResult) -> int:
    match part:
        case Text():
            return count_tokens(part.text)
        case ToolCall():
            return count_tokens(part.arguments) + count_tokens(part.name)
        case ToolResult():
            return count_tokens(part.content)
        case _:
            return 0


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data
