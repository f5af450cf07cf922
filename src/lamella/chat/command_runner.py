"""Runs commands: now, without a model and possibly during an answer, or later from the queue."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

from lamella.chat.mailbox import Mailboxes, in_progress
from lamella.chat.packets import Queued
from lamella.chat.queue import Queue
from lamella.chat.queued import QueuedCommand, payload_of
from lamella.chat.turns import Turns
from lamella.commands.parse import TypedCommand
from lamella.commands.registry import Commands
from lamella.core.errors import LamellaError, NotFound, TurnInProgress
from lamella.core.json import digest, encode
from lamella.core.records import Caller, Notice, QueuedMessage, queued_id_of
from lamella.turns.services import Services


@dataclass(frozen=True, slots=True)
class _SentCommand:
    """A command as sent. `queue`: it may wait."""

    caller: Caller
    conversation_id: str
    typed: TypedCommand
    notice_id: str
    queue: bool


class CommandRunner:
    """The commands of all conversations."""

    def __init__(
        self, commands: Commands, turns: Turns, services: Services, mailboxes: Mailboxes, queue: Queue
    ) -> None:
        self._commands = commands
        self._turns = turns
        self._services = services
        self._mailboxes = mailboxes
        self._queue = queue

    async def run(self, caller: Caller, conversation_id: str, typed: TypedCommand, *, key: str | None = None) -> Notice:
        """Run a command now, without a model; returns it with its answer, as stored.

        If the key was used before for the same command, returns that answer and does nothing. Raises as `Commands.run`
        does, `TurnInProgress`, `IdempotencyMismatch` or `ServerStopping`.
        """
        done = await self.submit(caller, conversation_id, typed, key=key, queue=False)
        if isinstance(done, Queued):
            raise in_progress(None)
        return done

    async def submit(
        self, caller: Caller, conversation_id: str, typed: TypedCommand, *, key: str | None = None, queue: bool = True
    ) -> Notice | Queued:
        """Run a command now, or queue it: a command that changes the context waits while a turn runs.

        Raises as `run` does, but `TurnInProgress` only if it may not wait; and `QueueFull`.
        """
        self._turns.must_be_open("command")
        sent = _SentCommand(caller, conversation_id, typed, self._services.ids.new("note"), queue)
        return await asyncio.shield(self._turns.track(self._submit(sent, key)))

    async def _submit(self, command: _SentCommand, key: str | None) -> Notice | Queued:
        box = self._mailboxes.of(command.conversation_id)
        if not self._commands.is_at_once(command.typed.name):
            async with box.rows:
                return await self._place(command) if key is None else await self._keyed(command, key)
        if key is None:
            return await self._now(command)
        async with box.keyed:
            return await self._keyed(command, key)

    async def _keyed(self, command: _SentCommand, key: str) -> Notice | Queued:
        """Run or queue a command, unless its key came with the same command before."""
        store, caller = self._services.store, command.caller
        same, now = digest(encode([command.conversation_id, command.typed])), self._services.clock.now()
        known = await store.keys.claim_key(caller, key, "commands", same, command.notice_id, now)
        if (outcome := await self._known(caller, known)) is not None:
            return outcome
        try:
            return await self._place(replace(command, notice_id=known), keyed=True)
        except LamellaError:
            if (outcome := await self._known(caller, known)) is not None:  # another process was faster
                return outcome
            if known == command.notice_id:
                # It stored nothing: its key can be used again.
                await store.keys.release_key(caller, key, claimed_at=now)
            raise

    async def _known(self, caller: Caller, notice_id: str) -> Notice | Queued | None:
        """The outcome of the command with this notice; None if it was never stored."""
        store = self._services.store
        with suppress(NotFound):
            return await store.notices.notice(caller, notice_id)
        with suppress(NotFound):
            return await self._queue.placed(caller, await store.queue.queued_message(caller, queued_id_of(notice_id)))
        return None

    async def _place(self, command: _SentCommand, *, keyed: bool = False) -> Notice | Queued:
        """Run a command now if it is its turn, else queue it. `keyed`: another process may have been faster."""
        if self._commands.is_at_once(command.typed.name):
            return await self._now(command)
        box = self._mailboxes.of(command.conversation_id)
        if await self._mailboxes.takes_floor(box, command.caller, command.conversation_id):
            try:
                done = await self._known(command.caller, command.notice_id) if keyed else None
                return await self._now(command) if done is None else done
            finally:
                self._mailboxes.leave(box, command.caller, command.conversation_id)
        if not command.queue:
            raise TurnInProgress(
                f"/{command.typed.name} changes the context of the running answer.",
                hint="Wait for its end, or stop it with /abort, and send the command again.",
            )
        return await self._enqueue(command)

    async def _now(self, command: _SentCommand) -> Notice:
        return await self._commands.run(command.caller, command.conversation_id, command.typed, command.notice_id)

    async def _enqueue(self, command: _SentCommand) -> Queued:
        typed = command.typed
        row = QueuedMessage(
            id=queued_id_of(command.notice_id),
            conversation_id=command.conversation_id,
            sender=command.caller.user_id,
            text=f"/{typed.name} {typed.argument}".strip(),
            sent_at=self._services.clock.now(),
            timezone="UTC",
            payload=payload_of(QueuedCommand(name=typed.name, argument=typed.argument)),
        )
        return await self._queue.add(command.caller, row)
