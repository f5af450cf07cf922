"""`/abort`, also `/stop` and `/cancel`: stop the answer that runs or is about to. What waits is answered next."""

from __future__ import annotations

from lamella.commands.command import Answer, Asked, Reach
from lamella.commands.queue import counted

ABORT_NAMES = ("abort", "stop", "cancel")


class Abort:
    """Asks the running turn to stop; what was said so far is kept."""

    at_once = True

    def __init__(self, reach: Reach, name: str) -> None:
        self._reach = reach
        self.name = name
        self.usage = f"/{name}"
        first = ABORT_NAMES[0]
        meaning = "stop the answer that runs; what was said so far stays, and what waits is answered next"
        self.summary = meaning if name == first else f"the same as /{first}"

    async def run(self, asked: Asked) -> Answer:
        """See `Command`."""
        mailboxes, conversation = self._reach.mailboxes, asked.conversation
        stopped = await mailboxes.abort(asked.caller, conversation)
        waiting = await mailboxes.waiting(asked.caller, conversation.id)
        if stopped is None:
            lines = ["No answer runs."]
        elif stopped.began:
            lines = ["Stopped. What was said so far stays."]
        else:
            lines = ["Stopped before the model was asked. The message stays in the conversation."]
        if waiting:
            verb = "is" if len(waiting) == 1 else "are"
            lines.append(f"{counted(waiting)} in the queue {verb} done next. To empty it: /queue clear")
        turn_id = stopped.turn_id if stopped is not None else None
        return Answer("\n".join(lines), {"turn_id": turn_id, "stopped": stopped is not None, "waiting": len(waiting)})
