"""What would be sent: the first request of a message, built as a turn builds it, and neither stored nor sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.agent.request import Identity, drafted, new_request, prepare
from lamella.core.errors import TurnInProgress
from lamella.core.messages import Attachment, Turn
from lamella.core.records import Caller, NewTurn, RequestRecord, StoredBlock
from lamella.engine.knowledge_prompt import completed
from lamella.engine.opening import OpeningQuery, Openings, first_context
from lamella.engine.services import Services


@dataclass(frozen=True, slots=True)
class Preview:
    """The request that a message would make: as it would be stored, with all its blocks. Its ids are empty."""

    record: RequestRecord
    blocks: tuple[StoredBlock, ...]


async def preview(
    caller: Caller, new: NewTurn, openings: Openings, services: Services, reminders: Sequence[str]
) -> Preview:
    """The first request of `new`. Raises what beginning a turn raises, and `TurnInProgress` while one runs."""
    query = replace(OpeningQuery.of(new), runs=new.runs[:1])
    [opening] = await openings.open_all(caller, query, keep=False)
    setting, run = opening.setting, opening.run
    new = replace(new, dynamic=completed(new.dynamic, setting.prompt, setting.around.agent))
    if opening.found.conversation.running_turn is not None:
        raise TurnInProgress("This conversation is still answering.", hint="Look again when its turn has ended.")
    files: tuple[Attachment, ...] = ()
    if new.file_ids:
        files = await services.store.attachments(caller, new.conversation_id, new.file_ids, setting.around.files)
    context = first_context(opening, Turn(new.id, new.message(files)), services.registry, reminders)
    made = await drafted(context, setting.layout, run.model, run.account, opening.line)
    now = services.clock.now()
    prepared = prepare(made, setting.policy, services.ledger, now, run.ttl)
    identity = Identity("", new.conversation_id, "", 0, "chat", now)
    request = new_request(prepared, identity, setting.policy, None)
    return Preview(request.record, tuple(request.blocks))
