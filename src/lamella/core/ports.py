"""The ports between the layers; every implementation lives at an edge."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from lamella.core.deltas import Delta
from lamella.core.messages import Turn
from lamella.core.models import ModelFacts
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest
from lamella.core.records import (
    Beginning,
    Caller,
    Conversation,
    ConversationChange,
    File,
    JournalEntry,
    LastBill,
    NewRequest,
    NewTurn,
    Page,
    PageQuery,
    RequestRecord,
    StoredBlock,
    StoredDecision,
    TurnEnd,
    TurnRecord,
    UnfinishedTurn,
)


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
        """Store a new conversation of the caller."""
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
        """Change it, with the decisions that say so."""
        ...

    async def delete_conversation(self, caller: Caller, conversation_id: str) -> None:
        """Remove it with everything that belongs to it; raises `TurnInProgress` while it answers."""
        ...

    async def add_file(self, caller: Caller, file: File, text: str | None) -> None:
        """Store a file's row and its extracted text."""
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

    async def beginning(self, caller: Caller, conversation_id: str, model: str) -> Beginning:
        """What a turn of `model` begins from: conversation, path, decisions and last bill in one transaction."""
        ...

    async def begin_turn(self, caller: Caller, turn: NewTurn, at: datetime) -> Turn:
        """Store the user message behind the conversation's head and mark the turn as running.

        Gives each file a document number that the conversation has never used. Raises `TurnInProgress` when a turn is
        running, `NotFound` for a foreign conversation or file; then nothing is stored.
        """
        ...

    async def path(self, caller: Caller, conversation_id: str) -> tuple[Turn, ...]:
        """The turns from the first to the head, canonical, the running one included."""
        ...

    async def turn(self, caller: Caller, turn_id: str) -> TurnRecord:
        """One turn."""
        ...

    async def turns(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[TurnRecord]:
        """The turns of a conversation."""
        ...

    async def finish_turn(self, caller: Caller, end: TurnEnd) -> None:
        """Store steps, results, usage and status. A turn that has ended already stays as it is."""
        ...

    async def record_request(self, caller: Caller, request: NewRequest) -> None:
        """Store a request, its new blocks and its decisions, before it is sent."""
        ...

    async def request(self, caller: Caller, request_id: str) -> RequestRecord:
        """One request, with all its segments."""
        ...

    async def requests(self, caller: Caller, turn_id: str) -> tuple[RequestRecord, ...]:
        """The requests of a turn, in order."""
        ...

    async def last_bill(self, caller: Caller, conversation_id: str, model: str) -> LastBill | None:
        """What the newest billed request of a conversation to a model was billed."""
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


class FileStore(Protocol):
    """Where the bytes of uploads lie, under ids made here; a user's file name is never a path."""

    def receive(self, file_id: str) -> AbstractAsyncContextManager[Path]:
        """A path to write the upload to; kept when the block ends well, removed when it raises."""
        ...

    def path(self, file_id: str) -> Path:
        """Where the file lies."""
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

    def stop(self, turn_id: str) -> None:
        """Ask the turn to stop."""
        ...

    async def stop_requested(self, turn_id: str) -> None:
        """Come back when the turn is asked to stop."""
        ...
