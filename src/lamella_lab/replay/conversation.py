"""The replayed conversation: its engine over an empty store, and what a user does in it, as a trace says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from lamella.app.core import Core, build_core, build_services
from lamella.cache.planner import policy_named
from lamella.chat import Message
from lamella.commands.parse import TypedCommand
from lamella.core.agents import DynamicBlock, KnowledgePrompt, joined
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import InvalidRequest
from lamella.core.messages import ToolResult, ToolSpec
from lamella.core.models import OFF, ModelFacts, effort_named
from lamella.core.packets import AnyPacket, decode_packet
from lamella.core.records import (
    UNCHANGED,
    Choices,
    Conversation,
    ConversationChange,
    FoundDocument,
    ImportedTurn,
    NewRun,
    NewTurn,
    Place,
    SystemPrompt,
    Unchanged,
)
from lamella.sessions.compaction import ENGINE
from lamella.settings import Settings
from lamella.storage import Store
from lamella.storage.file_store import FileStore
from lamella.tooling.tool import Registry
from lamella.turns.effective_settings import layout_named
from lamella_lab.replay.background import SUMMARIES, ReplayedJobs
from lamella_lab.replay.library import OWNER, TraceIds, TraceLibrary
from lamella_lab.replay.models import ReplayModels, ReplaySummaryModel
from lamella_lab.replay.replayed import ReplayedTool, told_step
from lamella_lab.replay.report import Event
from lamella_lab.trace.checks import place_named
from lamella_lab.trace.format import SetChange, Trace, TraceAgent, TraceProject, TraceTurn
from lamella_lab.trace.parts import TraceStop, TraceTool
from lamella_lab.trace.settings import GivenSettings, settings_of


def replay_settings(settings: GivenSettings, trace: Trace, facts: ModelFacts) -> Settings:
    """The settings of a replay. A turn may have as many steps as the longest of the trace, and one more; nobody asks
    for a title that the trace does not ask for.
    """
    longest = max((len(run.steps) + 1 for turn in trace.turns for run in turn.answers), default=0)
    shipped = settings_of({})
    own = {
        "step_limit": max(shipped.step_limit, longest),
        "thinking_effort": _effort(trace, facts),
        "titles": False,
    }
    return settings_of(own | {name: value for name, value in settings.items() if value is not None})


def played_settings(settings: Settings) -> Settings:
    """Those of a replay that is played as it was: what the engine did by itself between turns is in its trace.

    Thresholds stay: the words that a summary is asked for with, and what earlier ones may hold, come from them.
    """
    return settings.model_copy(update={"compaction_automatic": False})


def _effort(trace: Trace, facts: ModelFacts) -> str:
    """Thinking is on when the trace has any: else the simulator would have no place for it."""
    thinks = any(step.thinks for turn in trace.turns for step in turn.all_steps)
    return "medium" if thinks and facts.thinking != "none" else OFF


CONVERSATION = "conv_replay"

LONGEST_WAIT = 30.0
"""Real seconds that a turn waits to begin: then it needs what a held back summary would give."""


class ReplayedConversation:
    """One conversation of one user. `names` are its turns by the ids that the trace gives them."""

    def __init__(self, trace: Trace, store: Store, uploads: FileStore, models: ReplayModels) -> None:
        self.store = store
        self.playback = models.playback
        self.jobs = ReplayedJobs(store.jobs, self.playback)
        self.names: dict[str, str] = {}
        self._trace = trace
        self._models = models
        self._settings = trace.head.settings
        self._model = trace.head.model
        self._prompts = 0
        self._ids = TraceIds()
        self._services = build_services(
            store, Registry(()), self.playback.clock, self._ids, headers=self.playback.headers
        )
        self._library = TraceLibrary(store, uploads, self.playback.clock, self._ids)
        self._core: Core | None = None
        self._running: asyncio.Future[str] = asyncio.Future()
        """The id of the turn that runs."""
        self._ending = asyncio.Event()
        self.playback.on_stop = self._stop

    @property
    def core(self) -> Core:
        """The engine as it runs now."""
        assert self._core is not None
        return self._core

    async def begin(self) -> None:
        """Make the conversation, and start its engine."""
        head, now, library = self._trace.head, self.playback.clock.now(), self._library
        layout = layout_named(head.layout)
        self._hold(head.tools)
        conversation = Conversation(
            id=CONVERSATION,
            title="",
            model=head.model,
            layout=layout.name,
            marker_policy=policy_named(head.marker_policy or layout.markers).value,
            system_prompt=head.system,
            tools=self._services.registry.specs(),
            created_at=now,
            updated_at=now,
            agent_id=await library.agent(head.agent) if head.agent else None,
            project_id=await library.project(head.project) if head.project else None,
        )
        await self.start()
        await self.store.conversations.create_conversation(OWNER, conversation)
        for base in head.knowledge_bases:
            await self.grant(base.id, base.grant)

    async def start(self) -> None:
        """The engine with the current settings. It keeps the ledger, because the provider keeps its cache too."""
        await self.close()
        self.jobs.restarted()
        settings = replay_settings(self._settings, self._trace, self._models.facts(self._model))
        # A summary that the trace holds back comes after a later entry: a command does not wait for it.
        settings = settings.model_copy(update={"resume_timeout": 0.0, "debounce_ms": 0})
        if self._trace.is_played:
            settings = played_settings(settings)
        second = None
        if settings.compaction_model is not None:
            second = ReplaySummaryModel(self._models, settings.compaction_model, settings.compaction_choice)
        self._core = build_core(self._services, self._models, settings, jobs=self.jobs, summary_model=second)
        await self._core.chat.start()

    async def close(self) -> None:
        """End the engine: what still answers ends as interrupted."""
        if self._core is not None:
            await self._core.chat.close()

    # Turns

    async def send(self, turn: TraceTurn) -> str:
        """Begin a turn and give its id. One that needs a compaction first waits for it, and then no summary is held
        back.
        """
        playback = self.playback
        models = tuple(turn.models) or (self._model,)
        message = await self._message(turn, models)
        playback.begin(turn, models)
        if turn.id is not None:
            self._ids.expect("msg", turn.id)
        sending = asyncio.ensure_future(self.core.chat.sender.begin(OWNER, CONVERSATION, message))
        self._running = sending
        self.jobs.open, held, waited = True, len(playback.held), 0.0
        while not sending.done():
            await asyncio.wait({sending}, timeout=0.05)
            waited += 0.05
            if len(playback.held) > held or waited > LONGEST_WAIT:
                playback.release(everything=True)
        self.jobs.open = False
        turn_id = sending.result()
        if turn.id is not None:
            self.names[turn.id] = turn_id
        return turn_id

    async def tell(self, turn: TraceTurn) -> str:
        """Store a turn that was answered elsewhere, and give its id: no model is asked. Raises `InvalidRequest` for a
        branch in a conversation without an agent: a client can't make one there.
        """
        model = turn.models[0] if turn.models else self._model
        self.playback.begin(turn, (model,))
        if turn.id is not None:
            self._ids.expect("msg", turn.id)
        conversation = await self.store.conversations.conversation(OWNER, CONVERSATION)
        parent = conversation.place if turn.parent is msgspec.UNSET else await self._place(turn)
        branches = parent != conversation.place
        if branches and conversation.agent_id is None:
            raise InvalidRequest("A turn that is told follows the newest one here.", hint="Leave out its `parent`.")
        new = NewTurn(
            id=self._ids.new("turn"),
            conversation_id=CONVERSATION,
            user_message_id=self._ids.new("msg"),
            runs=(NewRun(self._ids.new("run"), model),),
            text=turn.user,
            sent_at=turn.sent or turn.at,
            timezone=turn.timezone or self._trace.head.timezone,
            tokens=count_tokens(turn.user),
            file_ids=tuple([await self._library.file(file) for file in turn.files]),
            dynamic=joined(_blocks(turn)),
            tools=_own_tools(turn),
            results=tuple(ToolResult(one.call_id, "", one.content, one.error) for one in turn.results),
        )
        told = ImportedTurn(new, tuple(told_step(step, model, self._ids.new("msg")) for step in turn.steps))
        agent, now = conversation.agent_id if branches else None, self.playback.clock.now()
        await self.store.histories.import_turns(OWNER, agent, parent, [told], now)
        if turn.id is not None:
            self.names[turn.id] = new.id
        return new.id

    async def _place(self, turn: TraceTurn) -> Place:
        """The place that a turn's `parent` names."""
        if not isinstance(turn.parent, str):
            return Place()
        name, run = place_named(turn.parent)
        followed = await self.store.turns.turn(OWNER, self.names[name])
        return Place(followed.id, (followed.run if run is None else followed.runs[run]).id)

    async def _message(self, turn: TraceTurn, models: tuple[str, ...]) -> Message:
        told = tuple(turn.dynamic_context)
        has_blocks = bool(turn.knowledge or turn.made_from)
        message = Message(
            text=turn.user,
            file_ids=tuple([await self._library.file(file) for file in turn.files]),
            timezone=turn.timezone or self._trace.head.timezone,
            models=models,
            dynamic=() if has_blocks else told,
            blocks=_blocks(turn) if has_blocks else (),
            choices=Choices(layout=turn.layout, marker_policy=turn.marker_policy, thinking_effort=turn.effort),
            parent_message_id=await self._parent(turn),
            sent_at=turn.sent or (turn.at if turn.at < self.playback.clock.now() else None),
            tools=_own_tools(turn),
            results=tuple(ToolResult(one.call_id, "", one.content, one.error) for one in turn.results),
        )
        if turn.regenerate is None:
            return message
        return await self.core.chat.sender.again(OWNER, CONVERSATION, self.names[turn.regenerate], message)

    async def _parent(self, turn: TraceTurn) -> str | Unchanged | None:
        """The message or run that a turn follows."""
        if turn.edit_of is not None:
            return (await self.store.turns.turn(OWNER, self.names[turn.edit_of])).parent.run_id
        if not isinstance(turn.parent, str):
            return UNCHANGED if turn.parent is msgspec.UNSET else None
        name, run = place_named(turn.parent)
        followed = await self.store.turns.turn(OWNER, self.names[name])
        return followed.user_message_id if run is None else followed.runs[run].id

    async def answered(self, turn_id: str) -> list[AnyPacket]:
        """The packets of a turn to its end, and what follows it done; the server that ended with it is started."""
        packets = asyncio.ensure_future(self._packets(turn_id))
        ending = asyncio.ensure_future(self._ending.wait())
        await asyncio.wait({packets, ending}, return_when=asyncio.FIRST_COMPLETED)
        ended = ending.done()
        if ended:
            await self.close()
        else:
            ending.cancel()
        found = await packets
        if ended:
            self._ending.clear()
            await self.start()
        else:
            await self.core.chat.rest(CONVERSATION)
        return found

    async def _packets(self, turn_id: str) -> list[AnyPacket]:
        return [decode_packet(data) async for batch in self.core.chat.stream(OWNER, turn_id) for _, data in batch]

    async def _stop(self, stop: TraceStop) -> None:
        """Stop a run of the running turn, or the server with all of them."""
        if stop.cause == "restart":
            self._ending.set()
            return
        turn_id = await self._running  # its first request may be made before its id is given
        record = await self.store.turns.turn(OWNER, turn_id)
        await self.core.chat.stop_run(OWNER, record.runs[stop.run].id)

    async def ended(self, turn: TraceTurn, turn_id: str) -> None:
        """What the trace says of a turn when it has been answered."""
        for found in turn.found:
            size, now = len(found.text.encode()), self.playback.clock.now()
            document = FoundDocument(found.title, found.media_type, found.text, size, found.url)
            await self.store.documents.keep_document(
                OWNER, CONVERSATION, document, self._services.counter.count(found.text), now
            )
        if turn.prefer is not None:
            await self._prefer(turn_id, turn.prefer)

    # What else a user does

    async def command(self, text: str) -> None:
        """Run a command. Raises `InvalidRequest` if it is unknown or can't be run."""
        typed = self.core.chat.sender.read(Message(text=text))
        if not isinstance(typed, TypedCommand):
            raise InvalidRequest(f"“{text}” is no command.", hint="/help lists them; // sends it as text.")
        await self.core.chat.orders.run(OWNER, CONVERSATION, typed)

    async def prefer(self, name: str, run: int | None, *, latest: bool) -> None:
        """Go on from an answer of a turn."""
        await self._prefer(self.names[name], run, latest=latest)

    async def _prefer(self, turn_id: str, run: int | None, *, latest: bool = False) -> None:
        record = await self.store.turns.turn(OWNER, turn_id)
        run_id = record.runs[run].id if run is not None else None
        await self.core.chat.prefer(OWNER, turn_id, run_id, latest=latest)

    async def compact(self, request: int) -> None:
        """Compact as the engine did by itself, unless this summary has been asked for by now, or is about to be: one
        that is held back keeps others waiting."""
        due = await self.store.jobs.next_due(SUMMARIES)
        waits = due is not None and due <= self.playback.clock.now()
        if len(self.playback.beside["summary"]) + waits <= request:
            self.core.sessions.compact(OWNER, CONVERSATION, who=ENGINE, why="as it was")

    async def prune(self, name: str, run: int, step: int, numbers: dict[str, float]) -> None:
        """Prune as the engine did by itself, up to a step."""
        steps = (await self.store.turns.turn(OWNER, self.names[name])).runs[run].steps
        if step < len(steps):
            made = Decision(DecisionKind.PRUNE, CONVERSATION, steps[step].id, ENGINE, "as it was", numbers)
            await self.change(ConversationChange(decisions=(made,)))

    async def change(self, change: ConversationChange) -> None:
        """Change the conversation's row."""
        await self.store.conversations.change_conversation(OWNER, CONVERSATION, change, self.playback.clock.now())

    async def use_agent(self, agent: TraceAgent | None) -> None:
        """From now on: this agent."""
        await self.change(ConversationChange(agent_id=await self._library.agent(agent) if agent else None))

    async def use_project(self, project: TraceProject | None) -> None:
        """From now on: this project."""
        await self.change(ConversationChange(project_id=await self._library.project(project) if project else None))

    async def grant(self, base: str, level: str) -> None:
        """From now on: so much of a knowledge base may be read."""
        await self._library.grant(base, level)

    async def use_system(self, text: str) -> None:
        """From now on: this system prompt."""
        self._prompts += 1
        prompt = SystemPrompt(self._prompts, text)
        why = f"the system prompt is version {self._prompts} now"
        made = Decision(DecisionKind.SETTING, "system", str(self._prompts), OWNER.user_id, why, first_changed="system")
        await self.change(ConversationChange(system_prompt=prompt, decisions=(made,)))

    async def equip(self, tools: Sequence[TraceTool]) -> None:
        """From now on: these tools. As with every change of the window, a decision says so."""
        self._hold(tools)
        specs = self._services.registry.specs()
        names = ", ".join(spec.name for spec in specs) or "none"
        why = f"the tools of the deployment are {names} from here on"
        made = Decision(DecisionKind.SETTING, "tools", names, OWNER.user_id, why, first_changed="tools")
        await self.change(ConversationChange(tools=specs, decisions=(made,)))
        await self.start()

    def _hold(self, tools: Sequence[TraceTool]) -> None:
        self.playback.tools = {tool.name: tool for tool in tools}
        staged = [ReplayedTool(tool, self.playback) for tool in tools]
        registry = Registry(staged, checks_arguments=False, checks_schemas=not self._trace.is_played)
        self._services = replace(self._services, registry=registry)

    async def set(self, change: SetChange) -> Sequence[Event]:
        """From now on: what the change names; gives what it changed, for people."""
        told: list[Event] = []
        named = ConversationChange(
            model=change.model,
            layout=change.layout,
            marker_policy=change.marker_policy,
            thinking_effort=UNCHANGED if change.effort is None else effort_named(change.effort),
        )
        if named != ConversationChange():
            await self.change(named)
        if change.marker_policy is not None:
            told.append(("markers", change.marker_policy))
        if change.model is not None:
            self._model = change.model
            told.append(("model", change.model))
        if change.settings:
            self._settings = self._settings | change.settings
            told.append(("settings", ", ".join(f"{name} {value}" for name, value in change.settings.items())))
        if change.settings or change.model is not None:
            await self.start()
        return told


def _own_tools(turn: TraceTurn) -> tuple[ToolSpec, ...] | None:
    if turn.own_tools is None:
        return None
    return tuple(ToolSpec(tool.name, tool.description, tool.schema, tool.when_old) for tool in turn.own_tools)


def _blocks(turn: TraceTurn) -> tuple[DynamicBlock, ...]:
    """Dynamic context that tells of knowledge bases, or needs the text about them; it may have nothing else to say."""
    prompt = KnowledgePrompt(turn.knowledge) if turn.knowledge is not None else KnowledgePrompt.NONE
    told = turn.dynamic_context or [""]
    return tuple(DynamicBlock(text, "as it was sent", prompt, made_from=tuple(turn.made_from)) for text in told)
