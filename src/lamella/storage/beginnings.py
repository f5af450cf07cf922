"""What a turn begins from, read in one transaction: it stands between a message and its first token."""

from __future__ import annotations

from lamella.core.records import Beginning, Caller
from lamella.storage.conversations import find_conversation, find_decisions
from lamella.storage.database import Verbs, uninterrupted
from lamella.storage.requests import find_last_bill
from lamella.storage.turns import find_path


class BeginningVerbs(Verbs):
    """The verb of `Store` that begins a turn's reading."""

    @uninterrupted
    async def beginning(self, caller: Caller, conversation_id: str, model: str) -> Beginning:
        """What a turn of `model` begins from."""
        async with self._database.reading() as connection:
            conversation = await find_conversation(connection, caller, conversation_id)
            return Beginning(
                conversation=conversation,
                path=await find_path(connection, caller, conversation),
                decisions=await find_decisions(connection, caller, conversation_id),
                last_bill=await find_last_bill(connection, caller, conversation_id, model),
            )
