"""`/abort`: stop the answer that runs."""

from __future__ import annotations

from lamella.commands.command import Answer, Asked, Reach


class Abort:
    """Asks the running turn to stop; what was said so far is kept."""

    name = "abort"
    usage = "/abort"
    summary = "stop the answer that runs; what was said so far stays"
    at_once = True

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def run(self, asked: Asked) -> Answer:
        """See `Command`."""
        turn_id = asked.conversation.running_turn
        if turn_id is None:
            return Answer("No answer runs.", {"turn_id": None})
        await self._reach.stop(asked.caller, turn_id)
        return Answer("Stopped. What was said so far stays.", {"turn_id": turn_id})
