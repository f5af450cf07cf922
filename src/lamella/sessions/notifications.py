"""Stores notifications of what happened to a conversation: results were pruned, a compaction ended or failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

import structlog

from lamella.cache.pruning import Pruning
from lamella.cache.weighing import SILENT, WindowSize
from lamella.context.layout import Layout
from lamella.core.errors import LamellaError
from lamella.core.json import JsonObject
from lamella.core.records import Caller, Notice, NoticeKind, PageQuery
from lamella.core.tokens import percent, short
from lamella.sessions.compaction import Compacted
from lamella.sessions.summariser import NotCompacted
from lamella.sessions.window import Breakdown
from lamella.turns.effective_settings import layout_named
from lamella.turns.services import Services


def compacted_line(before: int, after: int, number: int) -> str:
    """The notification of a compaction that ended session `number`, which keeps its summary."""
    return f"Compacted ({short(before)} → {short(after)} tokens). Summary: session {number}."


def compacted_text(before: int, parts: Breakdown, budget: int) -> str:
    """The notification of a compaction with its breakdown."""
    tools = f"{short(parts.tools)} tokens ({short(parts.definitions)} defs + {short(parts.calls)} calls)"
    return "\n".join(
        [
            f"⚙️ Compacted ({short(before)} → {short(parts.total)})",
            f"  🔧 System: {short(parts.system)} tokens",
            f"  📝 Summary: {short(parts.summary)} tokens",
            f"  💬 Kept context: {short(parts.kept)} tokens",
            f"  🛠️ Tools: {tools}",
            f"  📊 Total: {short(parts.total)}/{short(budget)} ({percent(parts.total, budget)})",
        ]
    )


def check_text(check: JsonObject) -> str:
    """The result of a check as a line of a notification; "" if nothing is missing or invented."""
    kept, missing, invented = (_listed(check, name) for name in ("kept_literally", "missing", "invented"))
    if not (kept or missing or invented):
        return ""
    found = [f"{check.get('found')} of {check.get('items')} found"]
    found += [f"{len(kept)} kept literally"] if kept else []
    found += [f"missing: {_some(missing)}"] if missing else []
    found += [f"not in the conversation: {_some(invented)}"] if invented else []
    return f"  🔎 Check: {', '.join(found)}"


def _listed(check: JsonObject, name: str) -> list[str]:
    found = check.get(name)
    return [str(text) for text in found] if isinstance(found, list) else []


def _some(texts: Sequence[str]) -> str:
    return ", ".join(f"“{text}”" for text in texts[:5]) + (" …" if len(texts) > 5 else "")


def pruned_text(before: int, after: int, context: int, budget: int) -> str:
    """The notification of a pruning; without the second line if the size of the window is unknown (0)."""
    text = f"🔧 Tool outputs pruned ({short(before)} → {short(after)}, -{percent(before - after, before)})"
    if not context:
        return text
    return f"{text}\n  📊 Context: {short(context)}/{short(budget)} ({percent(context, budget)})"


log = structlog.get_logger()


class Notifications:
    """Stores notifications after the conversation's newest turn. Failures are only logged."""

    def __init__(self, layouts: Mapping[str, Layout], services: Services, *, on: bool) -> None:
        self._layouts = layouts
        self._services = services
        self._on = on

    async def pruned(self, caller: Caller, conversation_id: str, pruning: Pruning, left: WindowSize) -> None:
        """Old results became stubs. `left` is the window after that: as it was billed, less what was pruned."""
        if not self._on:
            return
        try:
            text = pruned_text(pruning.before, pruning.after, left.input, left.budget)
            data: JsonObject = {"before": pruning.before, "after": pruning.after, "context": left.input}
            await self._store(caller, conversation_id, NoticeKind.PRUNED, text, data)
        except LamellaError as error:
            log.error(
                "the notification of a pruning could not be stored",
                conversation_id=conversation_id,
                error=error.message,
            )

    async def compacted(self, caller: Caller, conversation_id: str, done: Compacted, *, asked_for: bool) -> None:
        """A session ended with a summary, and another one began; who asked for that is told in any case."""
        if not (self._on or asked_for):
            return
        try:
            ended = await self._services.store.sessions.session(caller, str(done.session.parent_id))
            text = compacted_line(done.before, done.after.total, ended.number)
            if await self._breaks_down(caller, conversation_id):
                lines = [compacted_text(done.before, done.after, done.budget), check_text(done.check)]
                text = "\n".join(line for line in lines if line)
            of: JsonObject = {"session_id": done.session.id, "summary_of": ended.id}
            data: JsonObject = {**of, "before": done.before, "check": done.check, **parts_data(done.after)}
            await self._store(caller, conversation_id, NoticeKind.COMPACTED, text, data)
        except LamellaError as error:
            log.error(
                "the notification of a compaction could not be stored",
                conversation_id=conversation_id,
                error=error.message,
            )

    async def _breaks_down(self, caller: Caller, conversation_id: str) -> bool:
        """Whether the conversation's layout tells as its seed does."""
        conversation = await self._services.store.conversations.conversation(caller, conversation_id)
        return layout_named(conversation.layout, self._layouts).tells

    async def not_compacted(self, caller: Caller, conversation_id: str, done: NotCompacted, *, asked_for: bool) -> None:
        """A compaction did not come about; who did not ask is told each reason once until one works out again."""
        if not asked_for and (not self._on or done.code == SILENT):
            return
        try:
            if not asked_for and await self._was_told(caller, conversation_id, done):
                return
            text = " ".join(part for part in (f"Not compacted: {done.why}. Nothing has changed.", done.hint) if part)
            data: JsonObject = {"why": done.why, "code": done.code, "hint": done.hint, "asked_for": asked_for}
            await self._store(caller, conversation_id, NoticeKind.NOT_COMPACTED, text, data)
        except LamellaError as error:
            log.error(
                "the notification of a compaction could not be stored",
                conversation_id=conversation_id,
                error=error.message,
            )

    async def _was_told(self, caller: Caller, conversation_id: str, done: NotCompacted) -> bool:
        """Whether a notification since the last compaction gives the same reason."""
        page = await self._services.store.notices.notices(caller, conversation_id, PageQuery(limit=100))
        since = takewhile(lambda notice: notice.kind is not NoticeKind.COMPACTED, page.data)
        told = [notice.data for notice in since if notice.kind is NoticeKind.NOT_COMPACTED]
        reasons = [data.get("code") if done.code else data.get("why") for data in told]
        return (done.code or done.why) in reasons

    async def _store(self, caller: Caller, conversation_id: str, kind: NoticeKind, text: str, data: JsonObject) -> None:
        conversation = await self._services.store.conversations.conversation(caller, conversation_id)
        id, now = self._services.ids.new("note"), self._services.clock.now()
        notice = Notice(id, conversation_id, conversation.head, kind, now, text, data=data)
        await self._services.store.notices.add_notice(caller, notice)


def parts_data(parts: Breakdown) -> JsonObject:
    """The parts of a window for programs, in tokens."""
    return {
        "system": parts.system,
        "summary": parts.summary,
        "kept": parts.kept,
        "definitions": parts.definitions,
        "calls": parts.calls,
        "total": parts.total,
    }
