"""Commands that look and change nothing: `/status`, `/context`, `/why`, `/help`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lamella.cache.weighing import Act
from lamella.cache.why import Why
from lamella.commands.command import Answer, Command, CommandCall, CommandContext
from lamella.core.json import JsonObject
from lamella.core.models import OFF
from lamella.core.records import Retention
from lamella.core.tokens import percent, short
from lamella.sessions.idle import NextAction, compaction_line, offer_line, outlook_json
from lamella.sessions.notifications import parts_data
from lamella.sessions.why import newest_request
from lamella.sessions.window import WindowState
from lamella.storage.retention import ExpiredCounts

_PARTLY = (
    " (in part an estimate: a provider did not report the usage of a stopped answer, or reported impossible figures)"
)


class Status:
    """`/status`: the model, the session, the fill of the window, the cost."""

    name = "status"
    usage = "/status"
    summary = "the model, the session, how full the window is, what the conversation cost"
    at_once = True

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`."""
        now = await self._context.sessions.window_state(call.caller, call.conversation.id)
        totals = await self._context.store.notices.totals(call.caller, call.conversation.id)
        compacting = await self._context.sessions.compacts(call.caller, call.conversation.id)
        ahead = await self._context.sessions.outlook(call.caller, call.conversation.id)
        lines = [
            f"{now.model} · {_thinking(now)}",
            f"Session {now.session.number} · {counted(now.messages, 'message')} in the window",
            f"Context {_fill(now)}",
            f"Cache of the last request: {_cache(now)}",
            compaction_line(ahead),
            *([offer_line(ahead.offer)] if ahead.offer is not None and not compacting else []),
            next_line(ahead.next),
            f"Cost of the conversation: ${totals.cost:.4f}{_PARTLY if totals.estimated else ''}",
        ]
        keeps = self._context.sessions.settings.retention
        expired = await self._context.store.retention.expired(call.caller, call.conversation.id)
        lines += retention_lines(keeps, expired)
        if now.caution is not None:
            lines.append(now.caution)
        waiting = len(await self._context.store.queue.queued(call.caller, call.conversation.id))
        if compacting:
            lines.append("A compaction runs.")
        if waiting:
            lines.append("1 message waits." if waiting == 1 else f"{waiting} messages wait.")
        data: JsonObject = {
            **_window_json(now),
            "cost": totals.cost,
            "cost_estimated": totals.estimated,
            "compacting": compacting,
            "queued": waiting,
            "retention": {
                "packets_days": keeps.packets_days,
                "requests_days": keeps.requests_days,
                "expired_turns": expired.turns,
                "expired_requests": expired.requests,
            },
            **outlook_json(ahead),
        }
        return Answer("\n".join(lines), data)


def _window_json(now: WindowState) -> JsonObject:
    """The state of the window, for programs."""
    return {
        "model": now.model,
        "caution": now.caution,
        "effort": now.effort,
        "effort_note": now.asked.note or None,
        "session": {"id": now.session.id, "number": now.session.number},
        "messages": now.messages,
        "context": now.tokens,
        "measured": now.measured,
        "budget": now.budget,
        "cache_read": now.last.cache_read if now.last else 0,
        "cache_write": now.last.cache_write if now.last else 0,
    }


def retention_lines(keeps: Retention, expired: ExpiredCounts) -> list[str]:
    """How long packets and request bodies are kept, and what has expired here; nothing if all is kept for good."""
    kept = (("Packets", keeps.packets_days), ("Request bodies", keeps.requests_days))
    lines = [f"{what} are kept for {counted(days, 'day')}" for what, days in kept if days is not None]
    if expired.turns or expired.requests:
        gone = (
            f"the packets of {counted(expired.turns, 'turn')} and the bodies of {counted(expired.requests, 'request')}"
        )
        lines.append(f"Expired here: {gone}")
    return lines


def _thinking(now: WindowState) -> str:
    """The effort, and how the model deviates from it."""
    said = "thinking off" if now.effort == OFF else f"thinking {now.effort}"
    if now.effort.isdigit():
        said = f"thinking {short(int(now.effort))} tokens"
    return f"{said} ({now.asked.note})" if now.asked.note else said


def counted(count: int, what: str) -> str:
    """`1 day`, `30 days`."""
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _fill(now: WindowState) -> str:
    """`12.4k/168k (7%)`; a size without a bill is marked as approximate."""
    about = "" if now.measured else "about "
    return f"{about}{short(now.tokens)}/{short(now.budget)} ({percent(now.tokens, now.budget)})"


def _cache(now: WindowState) -> str:
    if now.last is None:
        return "nothing was asked yet"
    return f"{short(now.last.cache_read)} read, {short(now.last.cache_write)} written"


class Context:
    """`/context`: the contents of the window."""

    name = "context"
    usage = "/context"
    summary = "what the window is made of"
    at_once = True

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`."""
        now = await self._context.sessions.window_state(call.caller, call.conversation.id)
        parts = now.parts
        tools = f"{short(parts.tools)} tokens ({short(parts.definitions)} defs + {short(parts.calls)} calls)"
        lines = [
            f"Context about {short(parts.total)}/{short(now.budget)} ({percent(parts.total, now.budget)})",
            f"  🔧 System: {short(parts.system)} tokens",
            f"  📝 Summary: {short(parts.summary)} tokens",
            f"  💬 Messages: {short(parts.kept)} tokens",
            f"  🛠️ Tools: {tools}",
        ]
        ahead = await self._context.sessions.outlook(call.caller, call.conversation.id)
        lines.append(f"  ⏳ {next_line(ahead.next)}")
        return Answer("\n".join(lines), {**parts_data(parts), "budget": now.budget, **outlook_json(ahead)})


_ACTS = {Act.COMPACT: "a compaction", Act.PRUNE: "a pruning"}


def next_line(due: NextAction) -> str:
    """When the cache expires and what is due next, with the reason."""
    if due.ends is None:
        return f"Next: nothing is due; {due.why}"
    left = (due.ends - due.now).total_seconds()
    ends = f"The cache ends in {_minutes(left)}" if left > 0 else "The cache has ended"
    if due.act is Act.NOTHING or due.at is None:
        return f"{ends}; nothing is due: {due.why}"
    wait = (due.at - due.now).total_seconds()
    when = f"in {_minutes(wait)}" if wait > 0 else "now"
    return f"{ends}; next is {_ACTS[due.act]} {when}: {due.why}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class WhyCommand:
    """`/why`: why the newest request read what it read from the cache."""

    name = "why"
    usage = "/why"
    summary = "what the newest request read from the cache, what it cost, and why not more was read"
    at_once = True

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`."""
        newest = await newest_request(self._context.store, call.caller, call.conversation.id)
        if newest is None:
            return Answer("Nothing was asked yet.", {"request_id": None})
        found = await self._context.sessions.why(call.caller, newest.id)
        return Answer(found.text, {"request_id": newest.id, **why_data(found)})


def why_data(why: Why) -> JsonObject:
    """The same for programs. `lost` tokens were cached but not read, for `lost_cost` US dollars more. `provider` is the
    provider's comment, or null; `agrees` is null if it can't be compared.
    """
    return {
        "cause": why.cause.value,
        "lost": why.lost,
        "lost_cost": why.lost_cost,
        "first_changed": why.first_changed,
        "by": why.by.value if why.by is not None else None,
        "block": why.difference.block if why.difference is not None else None,
        "byte": why.difference.byte if why.difference is not None else None,
        "provider": {"text": why.provider.text, "agrees": why.provider.agrees} if why.provider is not None else None,
    }


class Help:
    """`/help`: the commands."""

    name = "help"
    usage = "/help"
    summary = "the commands"
    at_once = True

    def __init__(self, commands: Callable[[], Sequence[Command]]) -> None:
        self._commands = commands

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`."""
        commands = self._commands()
        lines = [f"{command.usage}: {command.summary}" for command in commands]
        lines.append("A message that begins with // is sent as text, with one slash less.")
        listed = [{"name": c.name, "usage": c.usage, "summary": c.summary} for c in commands]
        return Answer("\n".join(lines), {"commands": listed})
