"""What owners see of the answers that restricted readers got of their bases."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field, StringConstraints

from lamella.core.access import DAILY_LIMIT, BaseContent, Disclosure, RestrictedReader, RestrictedUse
from lamella.knowledge.restricted.disclosed import DisclosedPassage, PassageReader
from lamella.server.objects import Body, ListObject, Moment, Object, listed, whole_list
from lamella.server.routing import TheApp, TheCaller, ThePage, api_router

router = api_router()

MOST_TERMS = 5000
"""Names that are listed."""

Alert = Literal["daily_limit", "covered", "name"]
"""A bound of the day was reached; sentences were cut that told too much with earlier ones; or that held a name."""


class RestrictedUseObject(Object, kw_only=True):
    """A question to a restricted base, and how that ended.

    `released` is what the reader got, "" for a refusal; `passage_ids` are the `passages` that the second model was
    shown (`doc_3:1200`: a document and a place in it).
    """

    id: str
    object: Literal["restricted_use"] = "restricted_use"
    user_id: str
    name: str
    at: Moment
    question: str
    decision: Literal["answer", "refuse"]
    reason: str
    passages: int
    passage_ids: list[str]
    released: str
    short: bool
    removed: list[str]
    alerts: list[Alert]
    cached: bool
    model: str | None
    input_tokens: int
    output_tokens: int


class RestrictedReaderObject(Object, kw_only=True):
    """What a reader asked of a base: answers (`short` are of one short sentence), and how often each alert came up."""

    id: str
    object: Literal["restricted_reader"] = "restricted_reader"
    name: str
    answers: int
    short: int
    limited: int
    covered: int
    named: int
    alerts: list[Alert]
    last_at: Moment


class DisclosureObject(Object, kw_only=True):
    """What one answer told of a passage: its sentences, and the content words (stems) that were new to the reader."""

    use_id: str
    at: Moment
    question: str
    sentences: list[str]
    words: list[str]


class PassageReaderObject(Object, kw_only=True):
    """What a reader has of a passage: `words` of `out_of` content words, and `most` (0 to 1) of one sentence.

    `covered` are the places of these words in its text, each as `[start, end]` in characters.
    """

    user_id: str
    name: str
    words: int
    out_of: int
    most: float
    covered: list[list[int]]
    disclosures: list[DisclosureObject]


class DisclosedPassageObject(Object, kw_only=True):
    """A passage of which something went out; without a `text` it is of an earlier version of the document."""

    id: str
    object: Literal["disclosed_passage"] = "disclosed_passage"
    position: int | None
    headings: list[str]
    text: str
    readers: list[PassageReaderObject]


class TermObject(Object, kw_only=True):
    """A name that the documents of a base give."""

    term: str
    kind: Literal["word", "phrase"]
    language: str
    count: int


class RestrictedTermsObject(Object, kw_only=True):
    """The names of a base: `found` in its documents (the commonest `MOST_TERMS`), and what its owner says of them.

    `state` is `indexing` while they are being found.
    """

    object: Literal["restricted_terms"] = "restricted_terms"
    state: Literal["ready", "indexing"]
    found: list[TermObject]
    confirmed: list[str]
    allowed: list[str]


Terms = Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=100)]], Field(max_length=1000)]


class RestrictedTermsBody(Body):
    """`PUT /api/v1/knowledge-bases/{base_id}/restricted-terms`; what is left out stays."""

    confirmed: Terms | None = None
    allowed: Terms | None = None


def use_object(use: RestrictedUse) -> RestrictedUseObject:
    """A question to a restricted base."""
    return RestrictedUseObject.of(
        use, name=use.user_name, passages=use.chunks, model=use.model or None, alerts=_alerts_of(use)
    )


def _alerts_of(use: RestrictedUse) -> list[Alert]:
    limited: list[Alert] = ["daily_limit"] if use.reason == DAILY_LIMIT else []
    covered: list[Alert] = ["covered"] if "covered" in use.removed else []
    named: list[Alert] = ["name"] if "name" in use.removed else []
    return [*limited, *covered, *named]


def reader_object(reader: RestrictedReader) -> RestrictedReaderObject:
    """A reader of a base."""
    counts: list[tuple[Alert, int]] = [
        ("daily_limit", reader.limited),
        ("covered", reader.covered),
        ("name", reader.named),
    ]
    alerts = [alert for alert, count in counts if count]
    return RestrictedReaderObject.of(reader, id=reader.user_id, name=reader.user_name, alerts=alerts)


def _disclosure_object(one: Disclosure) -> DisclosureObject:
    return DisclosureObject.of(one, sentences=list(one.told.sentences), words=list(one.told.words))


def _passage_reader_object(reader: PassageReader) -> PassageReaderObject:
    told = [_disclosure_object(one) for one in reader.disclosures]
    return PassageReaderObject.of(
        reader, name=reader.user_name, covered=[list(one) for one in reader.covered], disclosures=told
    )


def disclosed_object(one: DisclosedPassage) -> DisclosedPassageObject:
    """A passage of which something went out."""
    passage = one.passage
    return DisclosedPassageObject(
        id=one.id,
        position=passage.position if passage is not None else None,
        headings=list(passage.headings) if passage is not None else [],
        text=passage.text if passage is not None else "",
        readers=[_passage_reader_object(reader) for reader in one.readers],
    )


@router.get("/knowledge-bases/{base_id}/restricted-uses")
async def uses(base_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[RestrictedUseObject]:
    """Its owner: who asked it what with restricted access, how that ended, and what they got."""
    return listed(await app.knowledge.restricted_uses(caller, base_id, page), use_object)


@router.get("/knowledge-bases/{base_id}/restricted-readers")
async def readers(
    base_id: str, app: TheApp, caller: TheCaller, days: Annotated[int, Query(ge=1, le=366)] = 30
) -> ListObject[RestrictedReaderObject]:
    """Its owner: who asked it with restricted access in the last `days`, with alerts, the last one first."""
    found = await app.knowledge.restricted_readers(caller, base_id, days)
    return whole_list([reader_object(reader) for reader in found])


@router.get("/knowledge-bases/{base_id}/restricted-terms")
async def terms(base_id: str, app: TheApp, caller: TheCaller) -> RestrictedTermsObject:
    """Its owner: the names that its documents give, and those that the owner confirmed or allowed."""
    content, found = await app.knowledge.restricted_terms(caller, base_id)
    return RestrictedTermsObject(
        state="ready" if found is not None else "indexing",
        found=[TermObject.of(one) for one in (found or ())[:MOST_TERMS]],
        confirmed=list(content.confirmed_terms),
        allowed=list(content.allowed_terms),
    )


@router.put("/knowledge-bases/{base_id}/restricted-terms")
async def set_terms(base_id: str, body: RestrictedTermsBody, app: TheApp, caller: TheCaller) -> RestrictedTermsObject:
    """Its owner: which words are names as well (`confirmed`), and which are none (`allowed`)."""

    def edit(now: BaseContent) -> BaseContent:
        confirmed = now.confirmed_terms if body.confirmed is None else tuple(body.confirmed)
        allowed = now.allowed_terms if body.allowed is None else tuple(body.allowed)
        return replace(now, confirmed_terms=confirmed, allowed_terms=allowed)

    await app.bases.change(caller, base_id, edit)
    return await terms(base_id, app, caller)


@router.get("/knowledge-bases/{base_id}/documents/{doc_id}/disclosed")
async def disclosed(
    base_id: str, doc_id: str, app: TheApp, caller: TheCaller, limit: Annotated[int, Query(ge=1, le=5000)] = 1000
) -> ListObject[DisclosedPassageObject]:
    """Its owner: the passages of a document of which something went out, each with who got which sentences of it.

    Of more than `limit` answers the newest are read, and `has_more` says so.
    """
    found, more = await app.knowledge.disclosed(caller, base_id, doc_id, limit)
    return whole_list([disclosed_object(one) for one in found], has_more=more)
