"""What is ahead of a conversation's window, as the gauge and `/status` say it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lamella.cache.economics import Elsewhere, NextCompaction, Offer
from lamella.core.json import JsonObject
from lamella.core.tokens import percent, short
from lamella.engine.opening import Opening
from lamella.sessions.idle import Next, next_json
from lamella.sessions.settings import SessionSettings, trigger_of
from lamella.sessions.window import parts_of, window_size


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is due `next` if nobody says anything, and the size of window at which a compaction is made by itself; None
    if none is. `when` is the deployment's setting. `offer`: what one now would save, if that is worth asking for.
    `budget`: the most tokens of the window; None if its model is not served."""

    next: Next
    when: str
    compaction: NextCompaction | None = None
    offer: Offer | None = None
    budget: int | None = None


def outlook_of(opening: Opening, due: Next, settings: SessionSettings, elsewhere: Elsewhere | None) -> Outlook:
    """What is ahead of the window in which a conversation stands; `elsewhere` are the prices of another summariser."""
    size = window_size(opening)
    if not size.input:  # another session began since the last bill, or there is none
        size = replace(size, input=parts_of(opening, due.now).total)
    economy, trigger = size.economy(elsewhere), trigger_of(settings)
    cold = due.ends is None or due.ends <= due.now
    offered = size.offer(trigger, economy, cold=cold)
    return Outlook(due, settings.compact_when, size.next_compaction(trigger, economy), offered, size.budget)


def outlook_json(ahead: Outlook) -> JsonObject:
    """The same for programs; `compaction_at` is null if no compaction is made by itself."""
    due = ahead.compaction
    return {
        "compaction_when": ahead.when,
        "compaction_at": due.at if due is not None else None,
        "compaction_by": None if due is None else "price" if due.by_price else "threshold",
        "compaction_offer": offer_json(ahead.offer),
        "cache": next_json(ahead.next),
    }


def offer_json(offer: Offer | None) -> JsonObject | None:
    """What a compaction now would save, for programs; in US dollars."""
    if offer is None:
        return None
    return {"saves": offer.saves, "share": offer.share, "messages": offer.messages}


def offer_line(offer: Offer) -> str:
    """The same as a line of `/status`."""
    share = percent(offer.share, 1)
    return f"/compact now would save about ${offer.saves:.2f} of the next {offer.messages} messages ({share})"


def compaction_line(ahead: Outlook) -> str:
    """The same as a line of `/status`."""
    due = ahead.compaction
    if due is None:
        return "Compaction: none is made by itself, since the last one was taken back"
    by = "where a summary pays" if due.by_price else "the threshold"
    return f"Compaction: by itself above {short(due.at)} tokens, {by} ({ahead.when})"
