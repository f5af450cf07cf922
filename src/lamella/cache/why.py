"""Explains in one sentence why a request read what it read from the cache.

The evidence is stored: the request, the one before it on its path, the decisions between them, and the bytes of blocks
that differ. The causes are tried in this order, and the first that holds is told: the bill makes no sense, there was no
request before, nothing was cached, all that was cached was read, another model, the cache expired, another thinking
effort, another window. A window differs at one block and byte (`difference.py`); a decision between the two requests
that names its segment says why, else what stands there does (a date, a tool described differently, an edited message).

Example: "3.1k of 20k tokens were read from the cache (18k predicted), 17k written, 120 paid in full. 15k cached tokens
were not read: from “Tools” on the window is another (block 2, byte 731): a tool is described differently, as their
server gave them." If the provider diagnoses a miss itself, its comment follows, and whether it agrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from lamella.cache.difference import (
    CLIENT,
    SHORTER,
    Cause,
    Difference,
    Origin,
    decided,
    difference,
    is_behind,
    origin_of,
    places,
    settings_changed,
    undecided,
)
from lamella.core.caching import SKEW, CacheVerdict, Diagnosis
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.models import Markers, ModelFacts
from lamella.core.prompt import Ttl
from lamella.core.records import RequestRecord, StoredDecision
from lamella.core.tokens import Usage, short

_CHANGED = {
    "model_changed": "the model changed",
    "system_changed": "the system prompt changed",
    "tools_changed": "the tools changed",
    "messages_changed": "earlier messages changed",
    "input_changed": "earlier input changed",
    "prompt_cache_key_changed": "the key of the cache changed",
    "text_format_changed": "the format of the answer changed",
    "reasoning_effort_changed": "the reasoning effort changed",
    "verbosity_changed": "the verbosity changed",
    "service_tier_changed": "the service tier changed",
    "context_compacted": "the conversation was compacted",
}

_SAID = {
    CacheVerdict.SAME: "nothing in the request kept its cache from being read",
    CacheVerdict.PENDING: "it was still comparing when the answer began",
    CacheVerdict.NOT_FOUND: "it does not know the answer to compare with",
    CacheVerdict.UNAVAILABLE: "it has no comparison to give",
}

_SETTINGS = ("reasoning_effort_changed", "verbosity_changed", "text_format_changed")
_TAIL = ("messages_changed", "input_changed")
_WINDOW = ("system_changed", "messages_changed", "input_changed", "context_compacted")

_UNCHANGED = (Cause.READ, Cause.EXPIRED, Cause.MISSED)
"""Causes found if a request begins as the one before, or if nothing was compared."""


@dataclass(frozen=True, slots=True)
class ProviderComment:
    """The provider's sentence. `agrees`: whether it names the cause that was found here; None if they can't be
    compared.
    """

    text: str
    agrees: bool | None


def provider_comment(
    diagnosis: Diagnosis,
    before: RequestRecord | None,
    cause: Cause,
    difference: Difference | None,
    *,
    differs_behind: bool = False,
) -> ProviderComment:
    """The provider's sentence, and whether it names the cause that was found.

    `differs_behind`: the windows differ only after the cached prefix. The provider may report that difference too, but
    it explains no miss.
    """
    said = _CHANGED.get(diagnosis.reason, diagnosis.reason) or _SAID[diagnosis.verdict]
    missed = f" ({short(diagnosis.missed)} tokens missed)" if diagnosis.missed is not None else ""
    if before is None or before.answer_id != diagnosis.against:
        return ProviderComment(f"The provider says, compared with an earlier answer: {said}{missed}.", None)
    agrees = _agrees(diagnosis, cause, difference)
    behind = cause is Cause.READ and diagnosis.verdict is CacheVerdict.CHANGED
    if differs_behind and cause is not Cause.READ and diagnosis.reason in _TAIL:
        agrees, behind = None, True
    beside = (
        ", which differs from the cause found here"
        if agrees is False
        else ", after the cached prefix"
        if behind
        else ""
    )
    return ProviderComment(f"The provider says: {said}{missed}{beside}.", agrees)


def _agrees(diagnosis: Diagnosis, cause: Cause, difference: Difference | None) -> bool | None:
    if cause in (Cause.NOT_BILLED, Cause.FIRST, Cause.NOTHING_CACHED, Cause.COUNTERS, Cause.CLOCK):
        return None
    if diagnosis.verdict is CacheVerdict.SAME:
        return cause in _UNCHANGED
    # What has expired may have changed too: the one does not deny the other. An unknown word says nothing here.
    if diagnosis.verdict is not CacheVerdict.CHANGED or cause is Cause.EXPIRED or diagnosis.reason not in _CHANGED:
        return None
    if cause is Cause.READ:  # what moves stands after the last marker, and a provider compares that too
        return diagnosis.reason in _WINDOW
    return _names(diagnosis.reason, cause, difference)


def _names(reason: str, cause: Cause, difference: Difference | None) -> bool:
    """Whether the provider's word names this cause. Tools come first in the prefix, so they are compared separately."""
    if reason == "model_changed":
        return cause is Cause.MODEL
    if reason in _SETTINGS:
        return cause in (Cause.EFFORT, Cause.SETTINGS)
    if reason == "tools_changed":
        return difference is not None and difference.segment.kind == "tools"
    return reason in _WINDOW and difference is not None and difference.segment.kind != "tools"


SLACK = 0.02
"""The share of the cached tokens that may stay unread without being a loss, since sizes in the middle are estimates."""

_NOT_LOST = (Cause.FIRST, Cause.READ, Cause.COUNTERS)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The stored facts about a request and the one before it in its conversation.

    `facts` describe its model, None if it is no longer served. `data` are the bytes of their blocks by digest; without
    them the differing byte is unknown. `left` is the newest request of the branch that its message left, if the message
    was sent to an earlier place.
    """

    request: RequestRecord
    before: RequestRecord | None
    decisions: Sequence[StoredDecision]
    facts: ModelFacts | None
    data: Mapping[str, bytes] = field(default_factory=dict)
    left: RequestRecord | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """The sentence, and the same for programs. `lost` are tokens that were cached and not read, `lost_cost` what that
    cost in US dollars, `first_changed` the segment from which on the window is another, `by` who changed it,
    `difference` where, `against` the request that it was compared with, and `told` what the provider says itself, where
    it was asked and did say. `differs` is where the two windows differ, also where that is no cause: `is_behind` what
    was cached."""

    text: str
    cause: Cause
    lost: int = 0
    lost_cost: float | None = None
    first_changed: str | None = None
    by: Origin | None = None
    difference: Difference | None = None
    against: str | None = None
    differs: Difference | None = None
    is_behind: bool = False
    provider: ProviderComment | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A finding: the cause, a sentence, and where and by whom a prefix was changed."""

    cause: Cause
    because: str
    difference: Difference | None = None
    by: Origin | None = None


@dataclass(frozen=True, slots=True)
class _Loss:
    """Cached tokens that were not read, those of them that were paid for again, and the extra cost."""

    tokens: int = 0
    again: int = 0
    cost: float | None = None

    def __str__(self) -> str:
        if not self.tokens:
            return ""
        again = f", {short(self.again)} were paid for again" if self.again < self.tokens and self.cost else ""
        more = f", ${self.cost:.4f} more than reading them" if self.cost else ""
        return f"{short(self.tokens)} cached tokens were not read{again}{more}: "


def why(evidence: Evidence) -> Why:
    """Explains a request's bill: what was predicted, read, written and paid in full, and why not more was read."""
    # What an edit leaves behind is compared with the branch that it left: the request before on its path knows nothing
    # of it, and a first message has none.
    edited = _edited(evidence)
    evidence = replace(evidence, before=evidence.left) if edited is not None else evidence
    ours, diagnosis = _placed(_ours(evidence, edited), evidence), evidence.request.diagnosis
    if diagnosis is None:
        return ours
    theirs = provider_comment(diagnosis, evidence.before, ours.cause, ours.difference, differs_behind=ours.is_behind)
    # Where all was read, it is told for programs: in words only what denies that.
    silent = ours.cause is Cause.READ and theirs.agrees is not False
    return replace(ours, text=ours.text if silent else f"{ours.text} {theirs.text}", provider=theirs)


def _ours(evidence: Evidence, edited: _Found | None) -> Why:
    """The explanation from our own records."""
    request = evidence.request
    usage = request.usage
    if usage is None or not usage.input:
        failed = "it failed before it was billed" if request.error else "it has not been billed yet"
        text = f"About {short(request.predicted_read)} of {short(request.estimate)} tokens were to be read; {failed}."
        return Why(text, Cause.NOT_BILLED)
    if usage.input_estimated and usage.can_be(request.estimate):
        cost = f", ${request.cost:.4f}" if request.cost is not None else ""
        text = (
            f"About {short(request.predicted_read)} of {short(request.estimate)} tokens were to be read; it was cut "
            f"before it was billed. Its bill is estimated: {short(usage.input)} tokens of input, {short(usage.output)} "
            f"of output{cost}."
        )
        return Why(text, Cause.NOT_BILLED)
    about = "about " if usage.estimated else ""
    cost = f" ({about}${request.cost:.4f})" if request.cost is not None else ""
    bill = (
        f"{short(usage.cache_read)} of {short(usage.input)} tokens were read from the cache "
        f"({short(request.predicted_read)} predicted), {short(usage.cache_write)} written, "
        f"{short(max(0, usage.fresh))} paid in full{cost}"
    )
    found = _cause(evidence, usage.cache_read, edited)
    loss = _loss(evidence, found)
    segment = found.difference.segment.id if found.difference is not None else None
    text = f"{bill}. {_upper(f'{loss}{found.because}')}."
    return Why(text, found.cause, loss.tokens, loss.cost, segment, found.by, found.difference)


def _edited(evidence: Evidence) -> _Found | None:
    """Whether the request's message replaced another one on the branch that it left."""
    request, left = evidence.request, evidence.left
    found = difference(left, request, evidence.data) if left is not None else None
    if found is None or found.now is None or not found.now.id.startswith(f"{request.turn_id}/"):
        return None
    return _Found(Cause.EDITED, f"{_where(found)}: an earlier message was edited", found, Origin.USER)


def _placed(ours: Why, evidence: Evidence) -> Why:
    """Adds the first difference of the windows, even if it is not the cause."""
    before, request = evidence.before, evidence.request
    if before is None:
        return ours
    found = ours.difference or difference(before, request, evidence.data)
    behind = found is not None and is_behind(found, before, _cached(before, request))
    return replace(ours, against=before.id, differs=found, is_behind=behind)


def _loss(evidence: Evidence, found: _Found) -> _Loss:
    usage = evidence.request.usage
    lost = again = 0
    if usage is not None and found.cause not in _NOT_LOST:
        lost = max(0, _cached(evidence.before, evidence.request) - usage.cache_read)
        again = max(0, min(lost, usage.input - usage.cache_read))
    if found.cause is Cause.EDITED and evidence.before is evidence.left:
        again = 0  # messages after an edited one are not sent any more
    return _Loss(lost, again, _cost(evidence.facts, evidence.request, again))


def _cached(before: RequestRecord | None, request: RequestRecord) -> int:
    """The tokens that the request before left in the cache, or more if more was predicted."""
    return max(_left_cached(before), request.predicted_read)


def _left_cached(before: RequestRecord | None) -> int:
    """The tokens of a request that were cached when it was answered."""
    usage = before.usage if before is not None else None
    return usage.cache_read + usage.cache_write if usage is not None else 0


def _cause(evidence: Evidence, read: int, edited: _Found | None) -> _Found:
    request, before, usage = evidence.request, evidence.before, evidence.request.usage
    if usage is not None and not usage.can_be(request.estimate):
        return _Found(Cause.COUNTERS, _impossible(usage, request.estimate))
    if before is None:
        shared = " beyond what other conversations share with it" if read else ""
        return _Found(Cause.FIRST, f"it is the first request of its conversation: nothing was cached yet{shared}")
    cached = _cached(before, request)
    if not cached:
        return _Found(Cause.NOTHING_CACHED, _nothing_cached(evidence))
    if cached - read <= SLACK * cached and (edited is None or cached <= read):
        unknown = read - cached > SLACK * read
        more = ", and more than was known here: another process or program had written it" if unknown else ""
        return _Found(Cause.READ, f"all that was cached was read{more}")
    if before.model != request.model:
        changed = f"from {before.model} to {request.model}"
        return _Found(Cause.MODEL, f"the model was changed {changed}, which has another cache", by=Origin.SETTING)
    return (
        _ended(evidence, before) or _beside(before, request, evidence.data) or _changed(evidence, before, read, edited)
    )


def _ended(evidence: Evidence, before: RequestRecord) -> _Found | None:
    """The explanation by time: the cache had expired, or its lifetime is unknown."""
    request = evidence.request
    if before.at - request.at > SKEW:
        return _Found(
            Cause.CLOCK,
            f"the clock was set back by {_gap(before.at - request.at)} since the request before, so nobody knew what "
            "was still cached",
            by=Origin.CLOCK,
        )
    gap, whole, tail = request.at - before.at, *_lives(before, evidence.facts)
    if gap >= whole:
        return _Found(Cause.EXPIRED, f"the cache had expired: {_gap(gap)} passed, and it lives {_gap(whole)}")
    # What is marked last may live for less than what stands before it: that is known, so it was not predicted.
    if gap >= tail and request.usage is not None and request.usage.cache_read >= (1 - SLACK) * request.predicted_read:
        return _Found(Cause.EXPIRED, f"the end of it had expired: {_gap(gap)} passed, and that lives {_gap(tail)}")
    return None


def _beside(before: RequestRecord, request: RequestRecord, data: Mapping[str, bytes]) -> _Found | None:
    """The settings outside of the window that are part of the cache key and changed."""
    if before.thinking_effort != request.thinking_effort:
        words = f"from {before.thinking_effort} to {request.thinking_effort}"
        said = f"the thinking effort was changed {words}, which is part of the cache's key"
        more = _tools_beside(before, request, data)
        said = f"{said}, and {more}" if more else said
        return _Found(Cause.EFFORT, said, by=Origin.SETTING)
    return None


def _tools_beside(before: RequestRecord, request: RequestRecord, data: Mapping[str, bytes]) -> str:
    """What happened to the tools at the same time, with its place; "" for nothing."""
    found = difference(before, request, data)
    if found is None or found.segment.kind != "tools":
        return ""
    return f"{undecided(found)[1]} ({', '.join(places(found))})"


def _changed(evidence: Evidence, before: RequestRecord, read: int, edited: _Found | None) -> _Found:
    """The explanation by the window: the first difference, and the decision that caused it."""
    request = evidence.request
    found = difference(before, request, evidence.data)
    if found is None or is_behind(found, before, _cached(before, request)):
        names = settings_changed(before, request)
        if names:
            said = f"{' and '.join(names)} of the request changed, which is part of the cache's key"
            return _Found(Cause.SETTINGS, said, by=Origin.SETTING)
        return _Found(
            Cause.MISSED, "the window begins as the one before, so the provider did not find what it had cached"
        )
    # The prediction knows the window as it is sent: what it had left to be read, the change did not take.
    if request.predicted_read - read > _cached(before, request) - request.predicted_read:
        return _Found(
            Cause.MISSED,
            "the change leaves the predicted prefix as it was, so the provider did not find what it had cached",
        )
    if edited is not None:
        return edited
    where = _where(found)
    decision = decided(evidence.decisions, before, request, found.segment)
    if decision is not None:
        cause = Cause.SHORTER if decision.kind in SHORTER else Cause.DECIDED
        return _Found(cause, f"{where}, because {_reason(decision)}", found, origin_of(decision))
    by, how = undecided(found)
    causes = {
        Origin.TOOLS: Cause.TOOLS,
        Origin.CLOCK: Cause.TIME,
        Origin.USER: Cause.EDITED,
        Origin.CLIENT: Cause.EDITED,
    }
    cause = causes.get(by, Cause.MOVED)
    if by is Origin.LAYOUT:
        return _Found(cause, f"{where}: in layout {before.layout} {how}", found, by)
    return _Found(cause, f"{where}{', and' if by is Origin.UNKNOWN else ':'} {how}", found, by)


def _where(difference: Difference) -> str:
    known = f" ({', '.join(places(difference))})" if difference.was or difference.becomes or difference.span > 1 else ""
    return f"from “{difference.segment.label}” on the window is another{known}"


def _reason(decision: Decision) -> str:
    match decision.kind:
        case DecisionKind.PRUNE:
            return f"old results of tools were pruned ({decision.why})"
        case DecisionKind.SESSION:
            return f"another session began ({decision.why})"
        case _:
            return decision.why


def _impossible(usage: Usage, estimate: int) -> str:
    said = f"of {usage.input} tokens it says that {usage.cache_read} were read and {usage.cache_write} written"
    if usage.fresh >= 0:
        said = f"it billed {usage.input} tokens for a window of about {estimate}"
    return f"the provider's figures do not add up: {said}, so nothing is concluded from them"


def _nothing_cached(evidence: Evidence) -> str:
    before, facts = evidence.before, evidence.facts
    caches_alone = facts is not None and facts.markers is not Markers.ANTHROPIC
    if evidence.request.marker_policy == "off" and not (caches_alone and evidence.request.layout == CLIENT):
        return "nothing was cached: no markers are set"
    if before is not None and before.marker_policy == "off" and not caches_alone:
        return "nothing was cached before: that request had no markers"
    least = f" (at least {short(facts.min_cacheable)} tokens for {facts.name})" if facts is not None else ""
    return f"nothing was cached before: the marked prefix was too short{least}"


def _lives(before: RequestRecord, facts: ModelFacts | None) -> tuple[timedelta, timedelta]:
    """How long the longest and the last marker of the request before keep their prefixes, from its start."""
    marked = [Ttl(marker.ttl).seconds for marker in before.markers]
    marked = marked or [facts.lives[0].seconds if facts is not None else Ttl.FIVE_MINUTES.seconds]
    return timedelta(seconds=max(marked)), timedelta(seconds=marked[-1])


def _gap(time: timedelta) -> str:
    minutes = time.total_seconds() / 60
    if minutes < 100:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 60 * 48 else f"{minutes / 1440:.0f} days"


def _cost(facts: ModelFacts | None, request: RequestRecord, lost: int) -> float | None:
    """The extra cost in US dollars of paying for these tokens instead of reading them."""
    price = request.price or (facts.price if facts is not None else None)
    if price is None or request.usage is None:
        return None
    usage = request.usage
    tier = price.tier_factor if price.tier_above and usage.input > price.tier_above else 1.0
    write = price.write_1h if usage.cache_write_1h else price.write_5m if usage.cache_write else 1.0
    return tier * lost * (write - price.read) * price.input / 1_000_000


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
