"""Commands for the running answer and the queue: `/abort` stops an answer; `/queue` lists, drops and flushes."""

from __future__ import annotations

from collections.abc import Sequence

from lamella.commands.command import Answer, CommandCall, CommandContext
from lamella.core.errors import InvalidRequest
from lamella.core.json import JsonObject
from lamella.core.records import QueuedMessage

SHOWN = 80
"""Characters of a message in the list."""

HINT = "/queue lists what waits, /queue drop N takes one out, /queue clear all, /queue now answers at once."


ABORT_NAMES = ("abort", "stop", "cancel")
"""All stop the answer that runs or is about to begin; the queue continues."""


class Abort:
    """Asks the running turn to stop; the partial answer is kept."""

    at_once = True

    def __init__(self, context: CommandContext, name: str) -> None:
        self._context = context
        self.name = name
        self.usage = f"/{name}"
        first = ABORT_NAMES[0]
        meaning = "stop the running answer and keep its text; then the queue continues"
        self.summary = meaning if name == first else f"the same as /{first}"

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`."""
        reach, conversation = self._context, call.conversation
        stopped = await reach.abort(call.caller, conversation)
        waiting = await reach.waiting(call.caller, conversation.id)
        if stopped is None:
            lines = ["No answer runs."]
        elif stopped.began:
            lines = ["Stopped. The partial answer is kept."]
        else:
            lines = ["Stopped before the model was asked. The message stays in the conversation."]
        if waiting:
            verb = "is" if len(waiting) == 1 else "are"
            lines.append(f"{counted(waiting)} in the queue {verb} done next. To empty it: /queue clear")
        turn_id = stopped.turn_id if stopped is not None else None
        return Answer("\n".join(lines), {"turn_id": turn_id, "stopped": stopped is not None, "waiting": len(waiting)})


class QueueCommand:
    """`/queue`, `/queue drop N`, `/queue clear`, `/queue now`."""

    name = "queue"
    usage = "/queue [drop N | clear | now]"
    summary = "list what waits to be answered; take one or all out, or wait no longer for more"
    at_once = True

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`."""
        reach, conversation_id = self._context, call.conversation.id
        waiting = await reach.waiting(call.caller, conversation_id)
        match call.argument.lower().split():
            case []:
                return _listed(waiting)
            case ["clear"]:
                return await self._drop(call, waiting)
            case ["drop", number]:
                return await self._drop(call, [_numbered(waiting, number)])
            case ["now"]:
                await reach.flush(call.caller, conversation_id)
                return Answer(f"{counted(waiting)} in the queue: nothing more is waited for.", _data(waiting))
            case _:
                raise InvalidRequest(f"/queue knows no “{call.argument[:60]}”.", hint=HINT, param="argument")

    async def _drop(self, call: CommandCall, unwanted: Sequence[QueuedMessage]) -> Answer:
        ids = [message.id for message in unwanted]
        dropped = await self._context.drop(call.caller, call.conversation.id, ids)
        left = await self._context.waiting(call.caller, call.conversation.id)
        lines = [f"Taken out: {_short(message.text)}" for message in dropped]
        late = len(ids) - len(dropped)
        if late:
            lines.append(f"{late} had begun already; /abort stops the answer that runs.")
        data = {"dropped": [message.id for message in dropped], **_data(left)}
        return Answer("\n".join(lines) or "Nothing waits.", data)


def counted(waiting: Sequence[QueuedMessage]) -> str:
    """`1 message`, `3 messages`."""
    return "1 message" if len(waiting) == 1 else f"{len(waiting)} messages"


def _listed(waiting: Sequence[QueuedMessage]) -> Answer:
    lines = [f"{number}. {_short(message.text)}" for number, message in enumerate(waiting, start=1)]
    if lines:
        lines.append("To take one out: /queue drop with its number; all: /queue clear")
    return Answer("\n".join(lines) or "Nothing waits.", _data(waiting))


def _data(waiting: Sequence[QueuedMessage]) -> JsonObject:
    return {"waiting": [{"id": message.id, "text": message.text} for message in waiting]}


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


def _numbered(waiting: Sequence[QueuedMessage], number: str) -> QueuedMessage:
    if number.isdecimal() and 1 <= int(number) <= len(waiting):
        return waiting[int(number) - 1]
    raise InvalidRequest(
        f"No message in the queue has the number {number[:20]}.", hint="/queue lists them.", param="argument"
    )
