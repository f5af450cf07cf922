"""Knowledge bases, who may read them, and what restricted readers would get of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import Response
from msgspec import UNSET, UnsetType, field
from pydantic import Field, StringConstraints

from lamella.app.app import App
from lamella.app.bases import described
from lamella.core.access import (
    BaseContent,
    DescribedBy,
    FormField,
    Grant,
    GrantChange,
    GrantLevel,
    KnowledgeBase,
    RestrictedLevel,
    SubjectKind,
)
from lamella.core.errors import NotFound
from lamella.core.records import Caller
from lamella.knowledge.restricted.material import Chunk
from lamella.knowledge.restricted.readiness import Readiness
from lamella.knowledge.restricted.safe_answers import Answered
from lamella.knowledge.restricted.searching import DailyLimits
from lamella.knowledge.restricted.summary import Reason
from lamella.server.objects import Body, ListObject, Moment, Object, listed, whole_list
from lamella.server.routing import IdempotencyKey, TheApp, TheCaller, ThePage, api_router

router = api_router()

Name = Annotated[str, StringConstraints(max_length=200)]
Hint = Annotated[str, StringConstraints(max_length=1000)]
Summary = Annotated[str, StringConstraints(max_length=4000)]
Keywords = Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=60)]], Field(max_length=12)]
Topics = Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=100)]], Field(max_length=30)]


class FormFieldBody(Body):
    """A field of a form: every answer picks one of its choices."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    choices: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=200)]], Field(min_length=2, max_length=100)
    ]


Form = Annotated[list[FormFieldBody], Field(max_length=20)]


class NewBase(Body):
    """`POST /api/v1/knowledge-bases`."""

    name: Name
    description: Annotated[str, StringConstraints(max_length=4000)] = ""
    visible: bool = False
    hint: Hint = ""
    keywords: Keywords = Field(default_factory=list)
    summary: Summary = ""
    topics: Topics = Field(default_factory=list)
    restricted_level: Literal["summary", "form", "existence"] = "summary"
    contact: Annotated[str, StringConstraints(max_length=200)] = ""
    form: Form = Field(default_factory=list)

    def content(self) -> BaseContent:
        """The fields of the body."""
        return self.edit(BaseContent(""))

    def edit(self, now: BaseContent) -> BaseContent:
        """The base with the fields of the body."""
        sent = self.model_dump(exclude_unset=True)
        summary, topics = sent.pop("summary", now.summary), sent.pop("topics", now.topics)
        sent["keywords"] = tuple(sent.get("keywords", now.keywords))
        if "restricted_level" in sent:
            sent["restricted_level"] = RestrictedLevel(self.restricted_level)
        if "form" in sent:
            sent["form"] = tuple(FormField(one.name, tuple(one.choices)) for one in self.form)
        return described(replace(now, **sent), summary, topics)


class BasePatch(NewBase):
    """`PATCH /api/v1/knowledge-bases/{id}`. Fields that are left out do not change."""

    name: Name = ""


class GrantBody(Body):
    """`PUT /api/v1/knowledge-bases/{id}/grants/{subject_id}`."""

    level: Literal["full", "restricted", "none"]


class RestrictedPreviewBody(Body):
    """`POST /api/v1/knowledge-bases/{base_id}/restricted-preview`."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    max_results: Annotated[int, Field(ge=1, le=20)] = 8


class FormFieldObject(Object, kw_only=True):
    """A field of a form."""

    name: str
    choices: list[str]


class RestrictedPreviewsBody(Body):
    """`POST /api/v1/knowledge-bases/{base_id}/restricted-previews`."""

    queries: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=2000)]], Field(min_length=1, max_length=50)
    ]
    max_results: Annotated[int, Field(ge=1, le=20)] = 8
    seconds: Annotated[float, Field(gt=0, le=600)] = 60


class KnowledgeBaseObject(Object, kw_only=True):
    """A base as its caller sees it. `hint` to `form` are there for those who may read all of it."""

    id: str
    object: Literal["knowledge_base"] = "knowledge_base"
    name: str
    description: str
    visible: bool
    hint: str | UnsetType = UNSET
    keywords: list[str] | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    topics: list[str] | UnsetType = UNSET
    described_by: DescribedBy | UnsetType = UNSET
    restricted_level: RestrictedLevel | UnsetType = UNSET
    contact: str | UnsetType = UNSET
    form: list[FormFieldObject] | UnsetType = UNSET
    level: GrantLevel
    owner_id: str
    is_owner: bool
    created_at: Moment
    updated_at: Moment


class GrantObject(Object, kw_only=True):
    """What was granted to a user or a group. `warning` says why the grant opens nothing yet."""

    id: str
    object: Literal["grant"] = "grant"
    kind: SubjectKind
    name: str
    level: GrantLevel
    by: str
    at: Moment
    warning: str | None = None


class GrantChangeObject(Object, kw_only=True):
    """A change of a grant; null is no grant."""

    id: str
    object: Literal["grant_change"] = "grant_change"
    subject_id: str
    kind: SubjectKind
    name: str
    by: str
    at: Moment
    from_: GrantLevel | None = field(name="from")
    to: GrantLevel | None


class SafeAnswerObject(Object, kw_only=True):
    """The answer that a restricted reader gets."""

    decision: Literal["answer", "refuse"]
    reason: str
    summary: str


class ReadPassageObject(Object, kw_only=True):
    """A passage that the second model read."""

    id: str
    title: str
    headings: list[str]
    text: str


class CheckedSentenceObject(Object, kw_only=True):
    """A sentence that the second model said: as it is `released`, "" if it is cut; why, and for which `words`."""

    said: str
    released: str
    cuts: list[str]
    words: list[str]


class RestrictedPreviewObject(Object, kw_only=True):
    """What would be told on a question: `safe` is what a reader gets, all else is for the owner.

    `said` is what the second model said before the guard, "" if it gave no summary; `removed` are the kinds of what the
    guard found in that.
    """

    object: Literal["restricted_preview"] = "restricted_preview"
    query: str
    safe: SafeAnswerObject
    said: str
    sentences: list[CheckedSentenceObject]
    removed: list[str]
    confidence: float | None
    model: str | None
    cached: bool
    passages: list[ReadPassageObject]


class RestrictedPreviewsObject(Object, kw_only=True):
    """What would be told on several questions; `refused` is the share of them that got a refusal, `cut` the share of
    the second model's sentences that were cut, both from 0 to 1. `not_asked` are the questions that the time limit
    left out.
    """

    object: Literal["restricted_previews"] = "restricted_previews"
    data: list[RestrictedPreviewObject]
    refused: float
    cut: float
    not_asked: list[str]


class ToldTextObject(Object, kw_only=True):
    """A text that the owner wrote, what restricted readers are `told` of it, and why not all (`cuts`)."""

    field: str
    text: str
    told: str
    cuts: list[str]


class TellingHeadingObject(Object, kw_only=True):
    """A title or heading of a document that holds names or figures, and how it reads without them (`masked`)."""

    document: str
    heading: str
    masked: str


class ReadinessObject(Object, kw_only=True):
    """How ready a base is for restricted readers.

    `languages` counts documents by language, such as `{"en": 12, "de": 3}`; of those in `unknown_language` nothing can
    be said. `terms` are names that were found in the documents, 1,000 at most. `headings` are titles and headings that
    hold names or figures, 200 at most. `answers_per_day` and `short_answers_per_day` are what a reader gets at most in
    24 hours, 0 without a bound.
    """

    object: Literal["restricted_readiness"] = "restricted_readiness"
    second_model: bool
    word_lists: bool
    documents: int
    languages: dict[str, int]
    unknown_language: list[str]
    headings: list[TellingHeadingObject]
    told: list[ToldTextObject]
    terms: list[str]
    answers_per_day: int
    short_answers_per_day: int


_FOR_READERS = ("hint", "keywords", "summary", "topics", "described_by", "restricted_level", "contact")


async def base_object(app: App, base: KnowledgeBase, caller: Caller) -> KnowledgeBaseObject:
    """A base; what its documents are about is for readers of all of them."""
    content = (await app.knowledge.shown(base)).content
    about: dict[str, Any] = {}
    if base.level is GrantLevel.FULL:
        about = {name: getattr(content, name) for name in _FOR_READERS}
        about["form"] = [FormFieldObject.of(one) for one in content.form]
    return KnowledgeBaseObject.of(
        base,
        name=content.name,
        description=content.description,
        visible=content.visible,
        owner_id=base.owner,
        is_owner=base.owner == caller.user_id,
        **about,
    )


NO_SECOND_MODEL = "Each question is refused until the server has a second model (LAMELLA_RESTRICTED_MODEL)."


def grant_object(grant: Grant, missing: Reason | None) -> GrantObject:
    """What was granted, on a server that lacks what is `missing` for restricted access."""
    is_closed = grant.level is GrantLevel.RESTRICTED and missing is not None
    warning = NO_SECOND_MODEL if is_closed else None
    return GrantObject.of(grant, id=grant.subject.id, kind=grant.subject.kind, warning=warning)


def change_object(change: GrantChange) -> GrantChangeObject:
    """A change of a grant."""
    subject = change.subject
    return GrantChangeObject.of(change, subject_id=subject.id, kind=subject.kind, from_=change.before, to=change.after)


def preview_object(query: str, answered: Answered, chunks: tuple[Chunk, ...]) -> RestrictedPreviewObject:
    """What would be told on a question."""
    safe = answered.safe
    sentences = [
        CheckedSentenceObject(
            said=one.said,
            released=one.text if safe.text else "",
            cuts=sorted(cut.value for cut in one.cuts),
            words=list(dict.fromkeys(one.blocked)),
        )
        for one in answered.sentences
    ]
    return RestrictedPreviewObject.of(
        answered,
        query=query,
        safe=SafeAnswerObject(decision=safe.decision, reason=safe.reason.value, summary=safe.text),
        sentences=sentences,
        model=answered.model or None,
        passages=[ReadPassageObject.of(chunk) for chunk in chunks],
    )


def previews_object(data: list[RestrictedPreviewObject], not_asked: list[str]) -> RestrictedPreviewsObject:
    """What would be told on several questions, with both shares."""
    refused = sum(one.safe.decision == "refuse" for one in data)
    said = [sentence for one in data for sentence in one.sentences if sentence.said]
    cut = sum(not sentence.released for sentence in said)
    return RestrictedPreviewsObject(
        data=data,
        refused=refused / len(data) if data else 0.0,
        cut=cut / len(said) if said else 0.0,
        not_asked=not_asked,
    )


MOST_TERMS, MOST_HEADINGS = 1_000, 200


def readiness_object(readiness: Readiness, limits: DailyLimits) -> ReadinessObject:
    """How ready a base is."""
    return ReadinessObject(
        second_model=readiness.has_model,
        word_lists=readiness.missing is not Reason.NO_WORD_LISTS,
        documents=readiness.documents,
        languages=dict(readiness.languages),
        unknown_language=[document.name for document in readiness.unknown_language],
        headings=[
            TellingHeadingObject.of(one, document=one.document.name) for one in readiness.headings[:MOST_HEADINGS]
        ],
        told=[ToldTextObject.of(one) for one in readiness.told],
        terms=list(readiness.terms[:MOST_TERMS]),
        answers_per_day=limits.answers,
        short_answers_per_day=limits.short,
    )


@router.post("/knowledge-bases", status_code=201)
async def create_base(body: NewBase, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> KnowledgeBaseObject:
    """A new knowledge base of the caller's."""
    return await base_object(app, await app.bases.create(caller, body.content(), key), caller)


@router.get("/knowledge-bases")
async def bases(page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[KnowledgeBaseObject]:
    """The bases that the caller can see, newest first, each with the caller's `level`."""
    found = await app.access.bases(caller, page)
    return whole_list([await base_object(app, base, caller) for base in found.data], has_more=found.has_more)


@router.get("/knowledge-bases/{base_id}")
async def base(base_id: str, app: TheApp, caller: TheCaller) -> KnowledgeBaseObject:
    """One base."""
    return await base_object(app, await app.access.base(caller, base_id), caller)


@router.patch("/knowledge-bases/{base_id}")
async def patch_base(base_id: str, body: BasePatch, app: TheApp, caller: TheCaller) -> KnowledgeBaseObject:
    """Change its name and description, or whether members without a grant see these."""
    return await base_object(app, await app.bases.change(caller, base_id, body.edit), caller)


@router.delete("/knowledge-bases/{base_id}", status_code=204)
async def delete_base(base_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Delete a base with everything in it."""
    await app.bases.delete(caller, base_id)
    return Response(status_code=204)


@router.get("/knowledge-bases/{base_id}/grants")
async def grants(base_id: str, app: TheApp, caller: TheCaller) -> ListObject[GrantObject]:
    """Who may read a base of the caller's, and how much."""
    return whole_list([grant_object(grant, app.bases.missing) for grant in await app.access.grants(caller, base_id)])


@router.get("/knowledge-bases/{base_id}/grant-changes")
async def grant_changes(base_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[GrantChangeObject]:
    """Every change of these grants: who made it, when, from which level to which."""
    return listed(await app.access.grant_changes(caller, base_id, page), change_object)


@router.put("/knowledge-bases/{base_id}/grants/{subject_id}")
async def grant(base_id: str, subject_id: str, body: GrantBody, app: TheApp, caller: TheCaller) -> GrantObject:
    """Let a user or a group read so much of a base."""
    granted = await app.bases.grant(caller, base_id, subject_id, GrantLevel(body.level))
    if granted is None:
        raise NotFound(f"The grant to {subject_id} was taken away meanwhile.", param="subject_id")
    return grant_object(granted, app.bases.missing)


@router.delete("/knowledge-bases/{base_id}/grants/{subject_id}", status_code=204)
async def take_grant_away(base_id: str, subject_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a grant."""
    await app.bases.grant(caller, base_id, subject_id, None)
    return Response(status_code=204)


@router.post("/knowledge-bases/{base_id}/restricted-preview")
async def preview(base_id: str, body: RestrictedPreviewBody, app: TheApp, caller: TheCaller) -> RestrictedPreviewObject:
    """Its owner: what a restricted reader would be told, beside what the second model said and the passages it read."""
    answered, chunks = await app.knowledge.restricted_preview(caller, base_id, body.query, body.max_results)
    return preview_object(body.query, answered, chunks)


@router.post("/knowledge-bases/{base_id}/restricted-previews")
async def previews(
    base_id: str, body: RestrictedPreviewsBody, app: TheApp, caller: TheCaller
) -> RestrictedPreviewsObject:
    """Its owner: what a restricted reader would be told on each of several questions, and how much was cut.

    After `seconds` no more questions are asked.
    """
    made: list[RestrictedPreviewObject] = []
    try:
        async with asyncio.timeout(body.seconds) as limit:
            for query in body.queries:
                answered, chunks = await app.knowledge.restricted_preview(caller, base_id, query, body.max_results)
                made.append(preview_object(query, answered, chunks))
    except TimeoutError:
        if not limit.expired():
            raise
    return previews_object(made, body.queries[len(made) :])


@router.get("/knowledge-bases/{base_id}/readiness")
async def readiness(base_id: str, app: TheApp, caller: TheCaller, *, documents: bool = True) -> ReadinessObject:
    """Its owner: what is missing for restricted readers, and what the guard cuts of what is said of the base.

    Without `documents` none is read, and the answer holds only what the server has and the daily bounds.
    """
    ready = await app.knowledge.readiness(caller, base_id, documents=documents)
    return readiness_object(ready, app.knowledge.restricted.limits)
