"""Conversations: their settings, the fill of their window, decisions; and the models to choose from."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Response
from msgspec import UNSET, UnsetType
from pydantic import Field

from lamella import __version__
from lamella.app.conversations import ConversationEdit, NewConversation
from lamella.app.demonstration import NOTICE
from lamella.cache.ledger import CacheLoss
from lamella.core.counting import aside
from lamella.core.models import ModelFacts, tokens_of
from lamella.core.prompt import Level
from lamella.core.records import UNCHANGED, Conversation, PageQuery, StoredDecision, TitledBy
from lamella.server.objects import (
    AnyObject,
    Body,
    Effort,
    Id,
    ListObject,
    Moment,
    Object,
    Title,
    effort_field,
    listed,
    whole_list,
)
from lamella.server.routing import JSON, IdempotencyKey, TheApp, TheCaller, ThePage, api_router
from lamella.sessions.idle import outlook_json
from lamella.sessions.window import EffortChoice
from lamella_lab.export.export import exporter_of
from lamella_lab.trace.writer import encode_trace

router = api_router()


class NewConversationBody(Body):
    """`POST /api/v1/conversations`."""

    title: Title = ""
    model: Id | None = None
    layout: Id | None = None
    marker_policy: Id | None = None
    agent_id: Id | None = None
    project_id: Id | None = None
    thinking_effort: Effort | None = None


class ConversationPatch(Body):
    """`PATCH /api/v1/conversations/{id}`; null lets agent, project and effort go, and leaves all else."""

    title: Title | None = None
    model: Id | None = None
    layout: Id | None = None
    marker_policy: Id | None = None
    system_prompt_version: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    agent_id: Id | None = None
    project_id: Id | None = None
    thinking_effort: Effort | None = None


class RetentionObject(Object, kw_only=True):
    """For how many days packets and request bodies are kept; null: for good."""

    packets_days: int | None
    requests_days: int | None


class StatusObject(Object, kw_only=True):
    """The server's version, the model that answers, and how long records are kept. `dropped_records`: requests of
    clients that were answered and not recorded since the start, because too many waited for their records.
    """

    version: str
    model: str
    provider: str
    demonstration: bool
    notice: str | None
    data_dir: str
    max_upload_bytes: int
    retention: RetentionObject
    dropped_records: int


class ModelObject(Object, kw_only=True):
    """A model by the name that chooses it. `caution` names facts that the model table lacks."""

    id: str
    object: Literal["model"] = "model"
    provider: str
    window: int
    known: bool
    caution: str | None


class CacheLossObject(Object, kw_only=True):
    """What the next request can't read from the cache: from which level on, about how many tokens, and the extra cost
    of writing instead of reading them, in US dollars.
    """

    level: Level
    tokens: int
    cost: float


class ConversationObject(Object, kw_only=True):
    """A conversation. `head` is the turn that the next message follows, `head_run_id` its answer.

    `titled_by` says who wrote the title: `words` are the first words of the conversation, until a model writes one.
    `thinking_effort` null leaves it to the agent, then to the server. `cache_lost` is set after a change of the effort:
    null if nothing is lost. `observed`: it is a client's, so it is read-only here; a fork of its line goes on.
    """

    id: str
    object: Literal["conversation"] = "conversation"
    title: str
    titled_by: TitledBy
    model: str
    layout: str
    marker_policy: str
    agent_id: str | None
    project_id: str | None
    system_prompt_version: int
    thinking_effort: str | None
    created_at: Moment
    updated_at: Moment
    running_turn: str | None
    head: str | None
    head_run_id: str | None
    observed: bool
    cache_lost: CacheLossObject | UnsetType | None = UNSET


class RequestedEffortObject(Object, kw_only=True):
    """The thinking parameters sent for an effort. At most one is set: a level, a budget in tokens, or `disabled`."""

    level: str | None
    budget: int | None
    disabled: bool


class EffortObject(Object, kw_only=True):
    """A thinking effort to choose, the parameters it sends, and what changing to it loses of the cache now.

    `note` says how the model deviates from it.
    """

    object: Literal["effort"] = "effort"
    name: str
    tokens: int
    current: bool
    requested: RequestedEffortObject
    note: str | None
    cache_lost: CacheLossObject | None


class CompactionOfferObject(Object, kw_only=True):
    """The saving of a compaction now, over the next `messages`, in US dollars."""

    saves: float
    share: float
    messages: int


class NextExpiryObject(Object, kw_only=True):
    """When the cache expires, and what is due next if no message comes."""

    ends_at: Moment | None
    next: Literal["nothing", "compact", "prune"]
    at: Moment | None
    why: str


class GaugeObject(Object, kw_only=True):
    """The fill of the window, and how much of the last request came from the cache.

    If the window has changed since that request, `input` is a count of the new window: an `estimate`. A compaction
    starts automatically above `compaction_at` tokens, null if never. `compacting`: one is running, or may start after
    the turn that just ended. `notice` is the id of the newest command or notification.
    """

    request_id: str | None
    input: int
    read: int
    cached_share: float | None
    budget: int
    compacting: bool
    compaction_when: str
    compaction_at: int | None
    compaction_by: Literal["price", "threshold"] | None
    compaction_offer: CompactionOfferObject | None
    cache: NextExpiryObject
    notice: str | None
    window: int
    estimate: bool


class DecisionObject(Object, kw_only=True):
    """A decision; `first_changed` is the segment from which on the window is another, if any."""

    id: str
    object: Literal["decision"] = "decision"
    at: Moment
    kind: str
    subject: str
    outcome: str
    who: str
    why: str
    numbers: dict[str, float]
    first_changed: str | None


def model_object(name: str, facts: ModelFacts) -> ModelObject:
    """A model by the name that chooses it."""
    return ModelObject.of(facts, id=name)


def conversation_object(conversation: Conversation) -> ConversationObject:
    """A conversation."""
    return ConversationObject.of(conversation)


def effort_object(choice: EffortChoice) -> EffortObject:
    """A thinking effort to choose."""
    asked = choice.asked
    return EffortObject(
        name=choice.effort,
        tokens=tokens_of(choice.effort),
        current=choice.current,
        requested=RequestedEffortObject(level=asked.level, budget=asked.budget or None, disabled=asked.without),
        note=asked.note or None,
        cache_lost=cache_loss_object(choice.lost),
    )


def cache_loss_object(lost: CacheLoss | None) -> CacheLossObject | None:
    """The cached tokens that the next request can't read."""
    return CacheLossObject.of(lost) if lost is not None else None


def decision_object(stored: StoredDecision) -> DecisionObject:
    """A decision."""
    decision = stored.decision
    return DecisionObject.of(decision, id=stored.id, at=stored.at.isoformat(), numbers=dict(decision.numbers))


@router.get("/status")
async def status(app: TheApp) -> StatusObject:
    """The server's version and the model that answers."""
    return StatusObject(
        version=__version__,
        model=app.models.default,
        provider=app.models.facts(app.models.default).provider,
        demonstration=app.models.is_demonstration,
        notice=NOTICE if app.models.is_demonstration else None,
        data_dir=str(app.settings.data),
        max_upload_bytes=app.settings.max_upload_bytes,
        retention=RetentionObject(
            packets_days=app.settings.keep_packets_days, requests_days=app.settings.keep_requests_days
        ),
        dropped_records=app.gateway.recorder.dropped,
    )


@router.get("/models")
async def models(app: TheApp, also: str = "") -> ListObject[ModelObject]:
    """The models to choose from; `also` adds a model that is served but not listed."""
    names = dict.fromkeys([*app.models.names(), *([also] if also else [])])
    return whole_list([model_object(name, app.models.facts(name)) for name in names])


@router.post("/conversations", status_code=201)
async def create_conversation(
    body: NewConversationBody, app: TheApp, caller: TheCaller, key: IdempotencyKey = None
) -> ConversationObject:
    """A new conversation."""
    sent = body.model_dump()
    request = NewConversation(**sent | effort_field(sent))
    return conversation_object(await app.conversations.create(caller, request, key))


@router.get("/conversations")
async def conversations(page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[ConversationObject]:
    """The caller's conversations, newest first."""
    return listed(await app.store.conversations.conversations(caller, page), conversation_object)


@router.get("/conversations/{conversation_id}")
async def conversation(conversation_id: str, app: TheApp, caller: TheCaller) -> ConversationObject:
    """One conversation."""
    return conversation_object(await app.store.conversations.conversation(caller, conversation_id))


@router.patch("/conversations/{conversation_id}")
async def patch_conversation(
    conversation_id: str, body: ConversationPatch, app: TheApp, caller: TheCaller
) -> ConversationObject:
    """Change a conversation. Another model, layout or system prompt is stored as a decision.

    After a change of the thinking effort the answer has `cache_lost`: what the next request can't read from the cache.
    """
    sent = body.model_dump(exclude_unset=True)
    edit = ConversationEdit(**sent | effort_field(sent))
    if edit.thinking_effort is UNCHANGED:
        return conversation_object(await app.conversations.change(caller, conversation_id, edit))
    before = await app.sessions.effort(caller, conversation_id)
    changed = conversation_object(await app.conversations.change(caller, conversation_id, edit))
    changed.cache_lost = cache_loss_object(await app.sessions.lost_since(caller, conversation_id, before))
    return changed


@router.get("/conversations/{conversation_id}/efforts")
async def efforts(conversation_id: str, app: TheApp, caller: TheCaller) -> ListObject[EffortObject]:
    """The thinking efforts to choose from, with the parameters they send and what changing to them costs now."""
    return whole_list([effort_object(one) for one in await app.sessions.efforts(caller, conversation_id)], "name")


@router.get("/conversations/{conversation_id}/export", responses={200: {JSON: AnyObject}})
async def export(conversation_id: str, app: TheApp, caller: TheCaller, content: bool = True) -> Response:
    """The conversation as a trace (docs/reference/traces.md), as far as the caller may read it. Without `content` it
    has only lengths and fingerprints.
    """
    trace = await exporter_of(app).export(caller, conversation_id, content=content)
    return Response(await aside(len(trace.entries), encode_trace, trace), media_type=JSON)


@router.delete("/conversations/{conversation_id}", status_code=204)
async def delete_conversation(conversation_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Delete a conversation with everything in it."""
    await app.chat.delete(caller, conversation_id)
    return Response(status_code=204)


@router.get("/conversations/{conversation_id}/context")
async def context(conversation_id: str, app: TheApp, caller: TheCaller) -> GaugeObject:
    """The gauge: the fill of the window, and how much of the last request came from the cache.

    If the window has changed since that request (compacted, pruned, another session), `input` is a count of the new
    window: an `estimate`. A compaction starts automatically above `compaction_at` tokens, null if never. `compacting`:
    one is running, or may start after a turn. `cache` says when the cache expires and what is due next if no message
    comes. `notice` is the id of the newest command or notification.
    """
    conversation = await app.store.conversations.conversation(caller, conversation_id)
    facts = app.models.facts(conversation.model)
    last = await app.store.requests.last_bill(caller, conversation_id, facts.name)
    counted = await app.sessions.counted(caller, conversation_id, last) if conversation.head is not None else None
    usage = last.usage if last and counted is None else None
    settling = conversation.running_turn is None and await app.chat.is_settling(conversation_id)
    compacting = settling or await app.sessions.compacts(caller, conversation_id)
    # Read after `compacting`: what a compaction tells is there when it runs no more.
    told = await app.store.notices.notices(caller, conversation_id, PageQuery(limit=1))
    ahead = await app.sessions.outlook(caller, conversation_id)
    return GaugeObject.of(
        None,
        request_id=last.request_id if last else None,
        input=usage.input if usage else counted or 0,
        read=usage.cache_read if usage else 0,
        cached_share=usage.cache_read / usage.input if usage and usage.input else None,
        budget=ahead.budget or app.settings.budget(facts),
        compacting=compacting,
        notice=told.data[0].id if told.data else None,
        window=facts.window,
        estimate=usage is None,
        **outlook_json(ahead),
    )


@router.get("/conversations/{conversation_id}/decisions")
async def decisions(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[DecisionObject]:
    """The decisions of a conversation with their reasons: they explain its window."""
    return listed(await app.store.conversations.decision_page(caller, conversation_id, page), decision_object)
