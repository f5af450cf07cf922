"""Checks whether a message can be answered, before anything is stored or sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.agent.calibration import count, is_near, margin_of
from lamella.agent.request import Draft, RequestIdentity, draft, drafted, new_request, prepare
from lamella.core.counting import aside
from lamella.core.errors import ContextLengthExceeded, NeedsCompaction, TurnInProgress
from lamella.core.messages import Attachment, Turn
from lamella.core.records import Caller, NewTurn, RequestRecord, StoredBlock
from lamella.turns.loader import TurnContext, TurnLoader, TurnQuery, first_context
from lamella.turns.services import Services


@dataclass(frozen=True, slots=True)
class AdmittedTurn:
    """A loaded turn with the provider's count, if it was asked, and its first window or the reason why there is none.

    The run sends this window with its first request, so a message's window is assembled once.
    """

    loaded: TurnContext
    draft: Draft | None = None
    refusal: ContextLengthExceeded | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """Looks whether the first request of a turn fits the window of each of its models."""

    services: Services
    reminders: Sequence[str]

    async def of(self, contexts: Sequence[TurnContext], turn: Turn, *, can_compact: bool) -> list[AdmittedTurn]:
        """The models that can answer. Raises the first reason if none can.

        No compaction is made for one model while another can answer. Near the limit the provider is asked to count, so
        that a window that is too large is compacted first.
        """
        found = [await self._admitted(loaded, turn, can_compact=can_compact) for loaded in contexts]
        if found[0].refusal is not None and all(one.refusal for one in found):
            raise found[0].refusal
        return [
            await self._looked_at(one.loaded, turn, can_compact=False)
            if isinstance(one.refusal, NeedsCompaction)
            else one
            for one in found
        ]

    async def _admitted(self, loaded: TurnContext, turn: Turn, *, can_compact: bool) -> AdmittedTurn:
        seen = await self._looked_at(loaded, turn, can_compact=can_compact)
        if seen.draft is None:
            return seen
        run, assembled = loaded.run, seen.draft.assembled
        margin = await margin_of(assembled, run.billed_local)
        if not is_near(assembled.report, margin):
            return seen
        request = run.model.request(assembled.prompt, seen.draft.wired.blocks, ())
        counted = await count(run.model, request, assembled.report.local)
        if counted is None:
            loaded = replace(loaded, run=replace(run, counts=False, margin=margin))
            return await self._looked_at(loaded, turn, can_compact=can_compact)
        loaded = replace(loaded, run=run.with_count(counted, assembled.report.estimate))
        return await self._looked_at(loaded, turn, can_compact=can_compact)

    async def _looked_at(self, loaded: TurnContext, turn: Turn, *, can_compact: bool) -> AdmittedTurn:
        return await aside(len(loaded.found.path), self._seen, loaded, turn, can_compact=can_compact)

    def _seen(self, loaded: TurnContext, turn: Turn, *, can_compact: bool) -> AdmittedTurn:
        context, run = first_context(loaded, turn, self.services.registry, self.reminders), loaded.run
        asking = replace(context, can_compact=can_compact)
        try:
            made = draft(asking, loaded.setting.layout, run.model, run.account, loaded.line)
        except ContextLengthExceeded as error:
            return AdmittedTurn(loaded, refusal=error)
        # A window that asks for no compaction is the same whether or not one would be possible.
        return AdmittedTurn(loaded, replace(made, context=context))


@dataclass(frozen=True, slots=True)
class Preview:
    """The request that a message would make, with all its blocks. Its ids are empty."""

    record: RequestRecord
    blocks: tuple[StoredBlock, ...]


async def preview(
    caller: Caller, new: NewTurn, loader: TurnLoader, services: Services, reminders: Sequence[str]
) -> Preview:
    """The first request of `new`. Raises the errors of beginning a turn, and `TurnInProgress` while one runs."""
    query = replace(TurnQuery.of(new), runs=new.runs[:1])
    [loaded] = await loader.load_all(caller, query, keep=False)
    setting, run = loaded.setting, loaded.run
    new = loaded.completed(new)
    if loaded.found.conversation.running_turn is not None:
        raise TurnInProgress("This conversation is still answering.", hint="Look again when its turn has ended.")
    files: tuple[Attachment, ...] = ()
    if new.file_ids:
        files = await services.store.files.attachments(caller, new.conversation_id, new.file_ids, setting.around.files)
    turn = loaded.turn_of(new.id, new.message(files))
    context = first_context(loaded, turn, services.registry, loaded.reminders(tuple(reminders), new.dynamic))
    made = await drafted(context, setting.layout, run.model, run.account, loaded.line)
    await services.ledger.read(made.chain.keys)
    now = services.clock.now()
    prepared = prepare(made, setting.policy, services.ledger, now, run.ttl)
    identity = RequestIdentity("", new.conversation_id, "", 0, "chat", now)
    request = new_request(prepared, identity, setting.policy, None)
    return Preview(request.record, tuple(request.blocks))
