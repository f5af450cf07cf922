"""The ports between the layers; every implementation lives at an edge."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from lamella.core.agents import Agent
from lamella.core.decisions import Decision
from lamella.core.deltas import Delta
from lamella.core.json import JsonObject
from lamella.core.messages import Attachment, Image, Turn
from lamella.core.models import ModelFacts
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest
from lamella.core.recall import Embedded, Found, Passage, PassageText, RecallQuery, Source, Space
from lamella.core.records import (
    Beginning,
    Branch,
    Caller,
    Conversation,
    ConversationChange,
    File,
    Footing,
    FoundDocument,
    Job,
    JournalEntry,
    LastBill,
    NewJob,
    NewRequest,
    NewTurn,
    Notice,
    Page,
    PageQuery,
    Place,
    ProjectContent,
    QueuedMessage,
    QueueStatus,
    RequestEnd,
    RequestRecord,
    StoredAgent,
    StoredBlock,
    StoredDecision,
    StoredProject,
    Surroundings,
    SystemPrompt,
    Totals,
    TurnEnd,
    TurnOnPath,
    TurnRecord,
    UnfinishedTurn,
)
from lamella.core.sessions import Session, SessionReturn, SessionStep, SessionSummary
from lamella.core.tokens import Usage


class ChatModel(Protocol):
    """A provider's wire protocol (`llm/`). Knows nothing of conversations."""

    facts: ModelFacts

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """The wire blocks of `prompt`, in cache order; `previous` only saves work where it is the same."""
        ...

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """The request of these blocks with these cache markers; at most 4, each on a markable block."""
        ...

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """What of the settings beside the blocks is part of the cache key, by the level that it changes first."""
        ...

    def body(self, request: WireRequest) -> dict[str, object]:
        """The JSON body, as it is handed to the provider's SDK."""
        ...

    def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """Send it and yield what comes back; raises a `ProviderError` and nothing else.

        Closing the iterator closes the connection.
        """
        ...

    async def count(self, request: WireRequest) -> int:
        """The provider's own count of the input, in tokens; raises a `ProviderError`."""
        ...

    async def close(self) -> None:
        """Let its connections go."""
        ...


class Store(Protocol):
    """Rows (`storage/`). Raises `NotFound` for ids that do not exist or are somebody else's, `StoreFailed` on failure.

    Every verb is one transaction. No verb waits for anything but the database.
    """

    async def create_conversation(self, caller: Caller, conversation: Conversation) -> None:
        """Store a new conversation of the caller, in a first session that the store names."""
        ...

    async def conversation(self, caller: Caller, conversation_id: str) -> Conversation:
        """One conversation."""
        ...

    async def conversations(self, caller: Caller, query: PageQuery) -> Page[Conversation]:
        """The caller's conversations."""
        ...

    async def change_conversation(
        self, caller: Caller, conversation_id: str, change: ConversationChange, at: datetime
    ) -> Conversation:
        """Change it, with the decisions that say so; raises `TurnInProgress` for what a running turn stands on."""
        ...

    async def title_conversation(self, caller: Caller, conversation_id: str, title: str) -> bool:
        """Give it a title that a model wrote; False, and nothing changes, where its title is not its first words."""
        ...

    async def delete_conversation(self, caller: Caller, conversation_id: str) -> None:
        """Remove it with everything that belongs to it; raises `TurnInProgress` while it answers."""
        ...

    async def session(self, caller: Caller, session_id: str) -> Session:
        """One session."""
        ...

    async def sessions(self, caller: Caller, conversation_id: str) -> tuple[Session, ...]:
        """All sessions of a conversation, the oldest first."""
        ...

    async def next_session(self, caller: Caller, step: SessionStep, job: Job | None = None) -> Session:
        """Close the current session and open the next, whose number the store counts; gives it as stored.

        The messages of the turns behind `begins_after` on the path, the running one's included, are the new session's.
        A summary that the closed one had before it was opened again gives way to a new one. Raises `SessionMoved` when
        the conversation is no longer in the expected session, or left it meanwhile, `NotFound` for a foreign parent or
        a `begins_after` off the path, `LeaseLost` when it is the work of a `job` that another worker has by now; then
        nothing is stored.
        """
        ...

    async def return_to_session(self, caller: Caller, back: SessionReturn) -> Session:
        """Close the current session and open an earlier one again, from another head; gives it as it is now.

        The messages of the turns that are in its window are its own again. Raises `SessionMoved`, `TurnInProgress`, or
        `NotFound` for a head that does not follow what the session begins after; then nothing is stored.
        """
        ...

    async def summarise_session(self, caller: Caller, closed: Session, summary: SessionSummary) -> bool:
        """Give a session that is closed as `closed` is its summary, and add what that cost.

        False when it is open, was closed at another moment, or has a summary of all of it; then nothing is stored.
        """
        ...

    async def spend(self, caller: Caller, session_id: str, purpose: str, usage: Usage) -> None:
        """Add to a session what was spent on it beside its turns."""
        ...

    async def add_agent(self, caller: Caller, agent: Agent, at: datetime) -> StoredAgent:
        """Store a new agent of the caller."""
        ...

    async def agent(self, caller: Caller, agent_id: str) -> StoredAgent:
        """One agent."""
        ...

    async def agents(self, caller: Caller, query: PageQuery) -> Page[StoredAgent]:
        """The caller's agents."""
        ...

    async def change_agent(
        self, caller: Caller, agent_id: str, edit: Callable[[Agent], Agent], at: datetime
    ) -> StoredAgent:
        """Store what `edit` makes of it, in one transaction; a difference is a new revision."""
        ...

    async def delete_agent(self, caller: Caller, agent_id: str) -> None:
        """Remove it; its conversations go on without it."""
        ...

    async def add_project(
        self, caller: Caller, project_id: str, content: ProjectContent, at: datetime
    ) -> StoredProject:
        """Store a new project of the caller; raises `InvalidRequest` for a file that has no text to give."""
        ...

    async def project(self, caller: Caller, project_id: str) -> StoredProject:
        """One project."""
        ...

    async def projects(self, caller: Caller, query: PageQuery) -> Page[StoredProject]:
        """The caller's projects."""
        ...

    async def change_project(
        self, caller: Caller, project_id: str, edit: Callable[[ProjectContent], ProjectContent], at: datetime
    ) -> StoredProject:
        """Store what `edit` makes of it, in one transaction; a difference is a new revision.

        Raises `InvalidRequest` for a file that has no text to give.
        """
        ...

    async def delete_project(self, caller: Caller, project_id: str) -> None:
        """Remove it; its files stay, and its conversations go on without it."""
        ...

    async def add_system_prompt(self, caller: Caller, text: str, note: str, at: datetime) -> SystemPrompt:
        """Store a new version: the one after the newest."""
        ...

    async def system_prompt(self, caller: Caller, version: int) -> SystemPrompt:
        """One stored version; the one that ships, 0, is not stored."""
        ...

    async def newest_system_prompt(self, caller: Caller) -> SystemPrompt | None:
        """The newest stored version, None when the caller wrote none."""
        ...

    async def system_prompts(self, caller: Caller, query: PageQuery) -> Page[SystemPrompt]:
        """The stored versions; `query.after` is a version."""
        ...

    async def surroundings(
        self, caller: Caller, conversation_id: str, agent_id: str | None, *, keep: bool = True
    ) -> Surroundings:
        """The agent `agent_id`, and the conversation's project with its numbered documents.

        A file of the project that has no number in this conversation gets one that was never used in it. Without
        `keep` the numbers are those it would get, and nothing is stored.
        """
        ...

    async def add_file(self, caller: Caller, file: File, text: str | None, image: Image | None = None) -> None:
        """Store a file's row, and its extracted text or its picture."""
        ...

    async def delete_file(self, caller: Caller, file_id: str) -> None:
        """Remove a file; raises `FileInUse` while a message or a project holds it."""
        ...

    async def attachments(self, caller: Caller, file_ids: Sequence[str], first: int) -> tuple[Attachment, ...]:
        """Files as they would be attached to a message, numbered from `first`; nothing is stored."""
        ...

    async def file(self, caller: Caller, file_id: str) -> File:
        """One file."""
        ...

    async def files(self, caller: Caller, query: PageQuery) -> Page[File]:
        """The caller's files."""
        ...

    async def file_text(self, caller: Caller, file_id: str) -> str | None:
        """The extracted text, None when there is none."""
        ...

    async def keep_document(
        self, caller: Caller, conversation_id: str, found: FoundDocument, tokens: int, at: datetime
    ) -> Attachment:
        """Store what a tool brought into a conversation, under a number that was never used in it; give it as kept.

        The same text from the same place again is the same document.
        """
        ...

    async def document(self, caller: Caller, document_id: str) -> Attachment:
        """A document that a tool brought into a conversation, with its text."""
        ...

    async def attached(self, caller: Caller, conversation_id: str, file_id: str) -> Attachment:
        """A file of any message of a conversation, wherever its window begins; raises `NotFound`."""
        ...

    async def beginning(
        self,
        caller: Caller,
        conversation_id: str,
        model: str,
        session_id: str | None = None,
        place: Place | None = None,
    ) -> Beginning:
        """What a turn of `model` begins from at `place`: conversation, window, decisions, last bill, of one moment.

        With the id of a closed session, the window is the one that it had when it was closed.
        """
        ...

    async def beginnings(
        self, caller: Caller, conversation_id: str, models: Sequence[str], place: Place | None = None
    ) -> tuple[Beginning, ...]:
        """As `beginning`, for each of the models and at `place`, None for where the conversation stands."""
        ...

    async def begin_turn(
        self,
        caller: Caller,
        turn: NewTurn,
        at: datetime,
        queued_ids: Sequence[str] = (),
        footing: Footing | None = None,
    ) -> Turn:
        """Store the user message and mark the turn as running; without a `footing` it follows where the conversation
        stands.

        Gives each file a document number that the conversation has never used. The waiting messages `queued_ids` went
        into this turn. Raises `TurnInProgress` when a turn is running, `HeadMoved` when the conversation does not stand
        where the footing says, `SessionMoved` when it is in another session, `NotFound` for a foreign conversation,
        file or waiting message, `NotWaiting` for one that waits no more; then nothing is stored.
        """
        ...

    async def path(self, caller: Caller, conversation_id: str) -> tuple[Turn, ...]:
        """The turns from the first to the head, canonical, the running one included, each with the answer that is
        followed.
        """
        ...

    async def place_of(self, caller: Caller, conversation_id: str, message_id: str) -> Place:
        """The place behind a message or a run; behind a user message that of the run that is followed."""
        ...

    async def turn_of_run(self, caller: Caller, run_id: str) -> str:
        """The id of the turn that a run belongs to."""
        ...

    async def latest(self, caller: Caller, conversation_id: str, place: Place) -> Place:
        """The newest end of what follows a place; itself where nothing does."""
        ...

    async def go_to(
        self,
        caller: Caller,
        conversation_id: str,
        expected: Place,
        place: Place,
        at: datetime,
        decided: Sequence[Decision],
        session: SessionStep | SessionReturn | None = None,
    ) -> Conversation:
        """Let a conversation go on from another place, in `session` if it is not in that one; what followed stays.

        Raises `HeadMoved` when it does not stand at `expected`, `SessionMoved`, `TurnInProgress` while another turn
        than that of `place` runs, `NotFound` for a run that is not the turn's; then nothing is stored.
        """
        ...

    async def turns_on_path(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[TurnOnPath]:
        """The turns of the current path, newest first unless asked otherwise."""
        ...

    async def tree(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[Branch]:
        """Every turn of a conversation, in whatever branch."""
        ...

    async def turn(self, caller: Caller, turn_id: str) -> TurnRecord:
        """One turn."""
        ...

    async def turns(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[TurnRecord]:
        """The turns of a conversation, of every branch, by id."""
        ...

    async def finish_turn(self, caller: Caller, end: TurnEnd) -> None:
        """Store what its runs made, usage and status. A turn that has ended already stays as it is.

        Where nobody chose meanwhile, the conversation goes on from the first choice: see `first_choice`.
        """
        ...

    async def queue_message(self, caller: Caller, message: QueuedMessage, limit: int | None = None) -> QueuedMessage:
        """Store a message behind those of its conversation that wait already; gives it with its place.

        Raises `QueueFull` when `limit` of them wait.
        """
        ...

    async def queued_message(self, caller: Caller, message_id: str) -> QueuedMessage:
        """One message of the queue, whether or not it waits."""
        ...

    async def queued(self, caller: Caller, conversation_id: str) -> tuple[QueuedMessage, ...]:
        """The messages of a conversation that wait, in order."""
        ...

    async def change_queued(
        self, caller: Caller, message_id: str, *, text: str | None = None, payload: JsonObject | None = None
    ) -> QueuedMessage:
        """Give a waiting message another text or payload; raises `NotWaiting` when it waits no more."""
        ...

    async def cancel_queued(self, caller: Caller, message_id: str) -> QueuedMessage:
        """Take a waiting message out of the queue; raises `NotWaiting` when it waits no more."""
        ...

    async def all_queued(self) -> tuple[tuple[Caller, QueuedMessage], ...]:
        """The messages of every owner that wait, by conversation and in order: for recovery at start."""
        ...

    async def add_notice(
        self,
        caller: Caller,
        notice: Notice,
        queued_ids: Sequence[str] = (),
        status: QueueStatus = QueueStatus.BEGUN,
    ) -> None:
        """Store what a conversation shows beside its messages.

        The waiting rows `queued_ids` are what it tells of, and have this `status` from now on; raises `NotWaiting` when
        one waits no more, and then stores nothing.
        """
        ...

    async def notice(self, caller: Caller, notice_id: str) -> Notice:
        """One notice."""
        ...

    async def notices(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[Notice]:
        """The notices of a conversation."""
        ...

    async def totals(self, caller: Caller, conversation_id: str) -> Totals:
        """What the conversation cost, and how many messages each of its sessions has."""
        ...

    async def record_request(self, caller: Caller, request: NewRequest) -> None:
        """Store a request, its new blocks and its decisions, before it is sent."""
        ...

    async def end_request(self, caller: Caller, end: RequestEnd) -> None:
        """Store what became of a request that was sent beside a turn, whose end does not wait for it."""
        ...

    async def request(self, caller: Caller, request_id: str) -> RequestRecord:
        """One request, with all its segments."""
        ...

    async def requests(self, caller: Caller, turn_id: str) -> tuple[RequestRecord, ...]:
        """The requests of a turn, in order."""
        ...

    async def last_bill(self, caller: Caller, conversation_id: str, model: str) -> LastBill | None:
        """What the newest billed request to a model was billed on the path that the conversation stands at."""
        ...

    async def blocks(self, caller: Caller, request_id: str) -> tuple[StoredBlock, ...]:
        """The wire blocks of a request, in order."""
        ...

    async def decisions(self, caller: Caller, conversation_id: str) -> tuple[StoredDecision, ...]:
        """Everything that was decided for a conversation, oldest first."""
        ...

    async def append_journal(self, entries: Sequence[JournalEntry]) -> None:
        """Store packets of any number of turns in one transaction."""
        ...

    async def journal(self, caller: Caller, turn_id: str, after: int) -> tuple[tuple[int, bytes], ...]:
        """The stored packets of a turn behind number `after`, each with its number."""
        ...

    async def claim_key(
        self, caller: Caller, key: str, route: str, fingerprint: str, result_id: str, at: datetime
    ) -> str:
        """Bind an Idempotency-Key to `result_id`, or give the id it was bound to before.

        Raises `IdempotencyMismatch` when the key came with another route or fingerprint.
        """
        ...

    async def release_key(self, caller: Caller, key: str) -> None:
        """Forget a key whose request stored nothing."""
        ...

    async def unfinished_turns(self) -> tuple[UnfinishedTurn, ...]:
        """The turns of every owner that are marked as running: for recovery at start."""
        ...

    async def file_ids(self) -> frozenset[str]:
        """The ids of every stored file of every owner: for clearing up at start."""
        ...


class Jobs(Protocol):
    """Background work. Every verb is one transaction. Raises `StoreFailed` on failure.

    A worker claims a job for a while and says when it goes on, is done or has failed; when its lease has ended another
    may claim the job, and whatever the late worker says then raises `LeaseLost`.
    """

    async def enqueue(self, caller: Caller, job: NewJob, at: datetime) -> Job:
        """Store work to do, or give the job of the same kind and subject that waits or runs already, as it is.

        With `job.follows`, one that runs is due once more when it has ended, as if it were new. With `job.takes_over`,
        one that waits gets the payload and the cause of this one, and is due when this one is, as if it were new.
        """
        ...

    async def job(self, caller: Caller, kind: str, subject: str) -> Job | None:
        """The newest job of a kind for a subject, ended ones included."""
        ...

    async def claim(
        self,
        kinds: Sequence[str],
        now: datetime,
        lease_seconds: float,
        busy: Sequence[tuple[str, str]] = (),
        only: str | None = None,
    ) -> Job | None:
        """A job that is due, leased for so long: of the owner who has the fewest running of its kind, the one that is
        due longest. None when none is due.

        `busy` are kinds, each with an owner for whom no more of them may run. With `only`, an id, that job or none.
        """
        ...

    async def next_due(self, kinds: Sequence[str]) -> datetime | None:
        """When the next job can be claimed, by its own time or because its lease has ended."""
        ...

    async def renew(self, job: Job, now: datetime, lease_seconds: float) -> None:
        """Keep a job for so long from now; raises `LeaseLost`."""
        ...

    async def finish(self, job: Job, at: datetime) -> None:
        """The job is done; raises `LeaseLost`."""
        ...

    async def fail(
        self, job: Job, error: Mapping[str, str | None], at: datetime, retry_at: datetime | None = None
    ) -> None:
        """The job failed, with this error object: it waits until `retry_at`, or has ended; raises `LeaseLost`."""
        ...


class Embedder(Protocol):
    """Texts as vectors, so that near ones mean about the same (SPEC L1)."""

    space: Space
    is_local: bool
    """Whether it asks nobody: then vectors are made with the index, else afterwards."""

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of these texts, all of one dimension; raises a `ProviderError`."""
        ...

    async def close(self) -> None:
        """Let its connections go."""
        ...


class RecallIndex(Protocol):
    """The passages that can be found again. Every verb is one transaction; a foreign id is not found.

    What waits to be indexed follows from what is stored, so a crash loses none of it.
    """

    async def waiting(self, model: str) -> tuple[tuple[Caller, str], ...]:
        """The conversations of every owner of which something has no passages, or no vectors of `model`."""
        ...

    async def unindexed(self, caller: Caller, conversation_id: str | None, limit: int) -> tuple[tuple[str, str], ...]:
        """Turns that have ended and have no passages yet, oldest first, with their conversations."""
        ...

    async def index_turn(self, caller: Caller, turn_id: str, passages: Sequence[Passage], model: str) -> bool:
        """Store the passages of a turn; False when that was done before, or the turn is gone."""
        ...

    async def unembedded(self, caller: Caller, conversation_id: str, model: str, limit: int) -> tuple[PassageText, ...]:
        """Passages that have no vector of `model`."""
        ...

    async def embed(self, caller: Caller, model: str, vectors: Mapping[int, bytes]) -> None:
        """Give passages their vectors, by entry; those that are gone are passed over."""
        ...

    async def unembedded_summaries(self, caller: Caller, conversation_id: str, model: str) -> tuple[Source, ...]:
        """Summaries of sessions that have no vector of `model`."""
        ...

    async def index_summary(
        self, caller: Caller, summary: Source, vector: bytes, passages: Sequence[Passage], model: str
    ) -> bool:
        """Store the vector of a session's summary, and its passages in the place of earlier ones.

        False when the session has another summary by now, or is gone.
        """
        ...

    async def search(self, caller: Caller, query: RecallQuery) -> Found:
        """What of the caller's fits the query best; raises `NotFound` for a foreign conversation."""
        ...

    async def source(self, caller: Caller, conversation_id: str | None, reference: str) -> Source:
        """Something in full, by its message id, its call id (the newest such call) or `MESSAGE/CALL`."""
        ...


class FileStore(Protocol):
    """Where the bytes of uploads lie, under ids made here; a user's file name is never a path."""

    def receive(self, file_id: str) -> AbstractAsyncContextManager[Path]:
        """A path to write the upload to; kept when the block ends well, removed when it raises."""
        ...

    def path(self, file_id: str) -> Path:
        """Where the file lies."""
        ...

    async def remove(self, file_id: str) -> None:
        """Remove the file, if it lies there; raises `StoreFailed`."""
        ...

    async def sweep(self, keep: frozenset[str]) -> int:
        """Remove what belongs to no row; gives how many."""
        ...


Batch = Sequence[tuple[int, bytes]]
"""Packets with their numbers, as JSON."""


class StreamBus(Protocol):
    """Live packets and stop signals of running turns."""

    def open(self, turn_id: str) -> None:
        """A turn begins; a stop sent from now on is not lost."""
        ...

    def publish(self, turn_id: str, n: int, data: bytes) -> None:
        """Packet `n`, as JSON."""
        ...

    def close(self, turn_id: str) -> None:
        """No packet follows; who follows the turn comes to its end."""
        ...

    def is_live(self, turn_id: str) -> bool:
        """Whether this turn can be followed here."""
        ...

    def follow(self, turn_id: str, after: int) -> AsyncIterator[Batch]:
        """Packets behind `after`, from memory and as they come, to the end of the turn; those there are at once."""
        ...

    def stop(self, turn_id: str, run_id: str | None = None) -> None:
        """Ask the turn to stop, or one of its runs."""
        ...

    def is_stopped(self, turn_id: str) -> bool:
        """Whether the turn was asked to stop already."""
        ...

    async def stop_requested(self, turn_id: str, run_id: str | None = None) -> None:
        """Come back when the turn, or one of its runs, is asked to stop: at once where that was in this process, within
        50 ms where it was in another (SPEC O15).
        """
        ...
