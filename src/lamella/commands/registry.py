"""The commands there are, and how one is run and stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lamella.commands.command import Command, CommandCall, CommandContext
from lamella.commands.info_commands import Context, Help, Status, WhyCommand
from lamella.commands.parse import TypedCommand
from lamella.commands.queue import ABORT_NAMES, Abort, QueueCommand
from lamella.commands.session_commands import Compact, New, Prune, Resume, Undo
from lamella.core.errors import TurnInProgress
from lamella.core.records import Caller, Notice, NoticeKind


class Commands:
    """The registry: one small class for each command."""

    def __init__(self, context: CommandContext) -> None:
        self._store = context.store
        self._clock = context.clock
        commands: tuple[Command, ...] = (
            Status(context),
            Context(context),
            WhyCommand(context),
            New(context, "new"),
            New(context, "clear"),
            Compact(context),
            Prune(context),
            Resume(context),
            Undo(context),
            *(Abort(context, name) for name in ABORT_NAMES),
            QueueCommand(context),
            Help(lambda: tuple(self._commands.values())),
        )
        self._commands = {command.name: command for command in commands}

    @property
    def usages(self) -> Mapping[str, str]:
        """How each command is typed, by its name."""
        return {command.name: command.usage for command in self._commands.values()}

    def all(self) -> tuple[Command, ...]:
        """The commands, in the order in which they are listed."""
        return tuple(self._commands.values())

    def is_at_once(self, name: str) -> bool:
        """Whether the command runs during an answer."""
        return self._commands[name].at_once

    async def run(
        self, caller: Caller, conversation_id: str, typed: TypedCommand, notice_id: str, queued_ids: Sequence[str] = ()
    ) -> Notice:
        """Run a command and store it with its answer, after the conversation's newest turn. No model is asked.

        The caller's rights are checked now, also for a command that waited. `queued_ids` is its row, which is removed
        with the answer. Raises `TurnInProgress` for a command that changes the context of a running answer, and the
        command's own errors; then nothing is stored.
        """
        command = self._commands[typed.name]
        conversation = await self._store.conversations.conversation(caller, conversation_id)
        if conversation.running_turn is not None and not command.at_once:
            raise TurnInProgress(
                f"/{command.name} changes the context of the running answer.",
                hint="Wait for its end, or stop it with /abort, and send the command again.",
            )
        answer = await command.run(CommandCall(caller, conversation, typed.argument))
        # A resumed session has another newest turn than the one before.
        head = (await self._store.conversations.conversation(caller, conversation_id)).head
        notice = Notice(
            id=notice_id,
            conversation_id=conversation_id,
            turn_id=head,
            kind=NoticeKind.COMMAND,
            at=self._clock.now(),
            text=answer.text,
            name=typed.name,
            argument=typed.argument,
            data=answer.data,
        )
        await self._store.notices.add_notice(caller, notice, queued_ids)
        return notice
