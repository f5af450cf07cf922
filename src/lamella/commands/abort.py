"""`/abort`: stop the answer that runs. What waits behind it stays, and is answered next."""

from __future__ import annotations

from lamella.commands.command import Answer, Asked, Reach
from lamella.commands.queue import counted


class Abort:
    """Asks the running turn to stop; what was said so far is kept."""

    name = "abort"
    usage = "/abort"
    summary = "stop the answer that runs; what was said so far stays, and what waits is answered next"
    at_once = True

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def run(self, asked: Asked) -> Answer:
        """See `Command`."""
        mailboxes, conversation = self._reach.mailboxes, asked.conversation
        turn_id = await mailboxes.abort(asked.caller, conversation)
        waiting = await mailboxes.waiting(asked.caller, conversation.id)
        lines = ["No answer runs." if turn_id is None else "Stopped. What was said so far stays."]
        if waiting:
            verb = "is" if len(waiting) == 1 else "are"
            lines.append(f"{counted(waiting)} in the queue {verb} done next. To empty it: /queue clear")
        return Answer("\n".join(lines), {"turn_id": turn_id, "waiting": len(waiting)})
