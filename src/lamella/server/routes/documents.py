"""Documents of knowledge bases, search in them, and which bases conversations and agents search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Query, Request, Response
from pydantic import Field, StringConstraints

from lamella.core.knowledge import Document, DocumentState, KnowledgeHit, Searcher, ShelfTotals, StoredPassage
from lamella.search.passages import snippet_of
from lamella.search.terms import query_terms
from lamella.server.objects import (
    PREFIX,
    Body,
    Id,
    ListObject,
    Moment,
    Object,
    SnippetObject,
    listed,
    snippet_object,
    whole_list,
)
from lamella.server.routes.files import MULTIPART, received
from lamella.server.routing import TheApp, TheCaller, ThePage, api_router

router = api_router()

DOCUMENT_PATHS = f"{PREFIX}/knowledge-bases/[^/]+/documents(?:/[^/]+/content)?"
"""Paths to which documents are uploaded, as a pattern of whole paths."""


class SearchBody(Body):
    """`POST /api/v1/knowledge-bases/search`. `document_ids` left out is all."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    knowledge_base_ids: Annotated[list[Id], Field(min_length=1, max_length=20)]
    document_ids: Annotated[list[Id], Field(max_length=1000)] | None = None
    max_results: Annotated[int, Field(ge=1, le=100)] = 10


class BoundBody(Body):
    """`PUT …/knowledge-bases` of a conversation or an agent: the complete list of bases that it searches."""

    knowledge_base_ids: Annotated[list[Id], Field(max_length=20)]


class KnowledgeDocumentObject(Object, kw_only=True):
    """A document and its progress. `code` and `reason` say why it failed or what it waits for.

    `searchable_version` is the version that search uses, null before the first is indexed. `embedded` counts the
    passages with a vector of `embedder`.
    """

    id: str
    object: Literal["document"] = "document"
    knowledge_base_id: str | None
    name: str
    media_type: str | None
    size: int
    state: DocumentState
    code: str | None
    reason: str | None
    version: int
    searchable_version: int | None
    pages: int | None
    tokens: int
    passages: int
    embedded: int
    embedder: str | None
    created_at: Moment
    updated_at: Moment


class BaseTotalsObject(Object, kw_only=True):
    """The totals of a base. `states` counts its documents by state."""

    documents: int
    unfinished: int
    searchable: int
    passages: int
    embedded: int
    tokens: int
    states: dict[DocumentState, int]


class DocumentListObject(ListObject[KnowledgeDocumentObject], kw_only=True):
    """A page of the documents of a base, and its totals."""

    totals: BaseTotalsObject


class PassageObject(Object, kw_only=True):
    """A passage: characters `start` to `end` of its document."""

    object: Literal["passage", "search.hit"] = "passage"
    document_id: str
    position: int
    start: int
    end: int
    headings: list[str]
    page: int | None
    tokens: int
    text: str


class KnowledgeHitObject(PassageObject, kw_only=True):
    """A found passage, with a snippet around the words of the query.

    `score` is 1 for the best by words and by meaning. `lexical_score` is BM25, 0 if no word fits; `similarity` is the
    cosine to the query, 0 if vectors took no part.
    """

    title: str
    knowledge_base_id: str | None
    score: float
    lexical_score: float
    similarity: float
    snippet: SnippetObject


class KnowledgeSearchObject(Object, kw_only=True):
    """The hits of a search. `lexical_only_reason` says why vectors took no part, null if they did."""

    object: Literal["search"] = "search"
    query: str
    embedder: str
    lexical_only_reason: str | None
    data: list[KnowledgeHitObject]


class SearcherObject(Object, kw_only=True):
    """A conversation or an agent that searches a base."""

    id: str
    object: Literal["conversation", "agent"]
    name: str


class BoundBasesObject(Object, kw_only=True):
    """The bases that a conversation or an agent searches."""

    knowledge_base_ids: list[str]


def document_object(document: Document) -> KnowledgeDocumentObject:
    """A document and how far it is."""
    return KnowledgeDocumentObject.of(
        document,
        knowledge_base_id=document.shelf.id or None,
        media_type=document.media_type or None,
        searchable_version=document.found,
        embedder=document.model,
    )


def passage_object(passage: StoredPassage) -> PassageObject:
    """A passage."""
    return PassageObject.of(passage)


def hit_object(hit: KnowledgeHit, terms: tuple[str, ...]) -> KnowledgeHitObject:
    """A passage that was found."""
    return KnowledgeHitObject.of(
        hit.passage,
        object="search.hit",
        title=hit.document.name,
        knowledge_base_id=hit.document.shelf.id or None,
        score=round(hit.score, 4),
        lexical_score=round(hit.words, 4),
        similarity=round(hit.similarity, 4),
        snippet=snippet_object(snippet_of(hit.passage.text, terms)),
    )


def totals_object(totals: ShelfTotals) -> BaseTotalsObject:
    """The totals of a base."""
    return BaseTotalsObject.of(totals, searchable=totals.found)


def searcher_object(searcher: Searcher) -> SearcherObject:
    """Who searches a base."""
    return SearcherObject.of(searcher, object=searcher.kind)


@router.post("/knowledge-bases/search")
async def search(body: SearchBody, app: TheApp, caller: TheCaller) -> KnowledgeSearchObject:
    """Search the documents of these bases. Returns passages with scores."""
    found = await app.knowledge.search(caller, body.knowledge_base_ids, body.query, body.max_results, body.document_ids)
    return KnowledgeSearchObject(
        query=body.query,
        embedder=app.knowledge.searching.embedder,
        lexical_only_reason=found.without or None,
        data=[hit_object(hit, query_terms(body.query)) for hit in found.hits],
    )


@router.get("/knowledge-bases/{base_id}/documents")
async def documents(base_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> DocumentListObject:
    """The documents of a base, newest first, with how far each is; and the totals of the base."""
    found = listed(await app.knowledge.documents(caller, base_id, page), document_object)
    return DocumentListObject.of(found, totals=totals_object(await app.knowledge.totals(caller, base_id)))


@router.post("/knowledge-bases/{base_id}/documents", status_code=202, openapi_extra=MULTIPART)
async def add_document(base_id: str, request: Request, app: TheApp, caller: TheCaller) -> KnowledgeDocumentObject:
    """Upload a document in the multipart field `file`; it is made ready in the background.

    The same file under the same name again is the document that is there.
    """
    await app.knowledge.must_own(caller, base_id)
    name, pieces = await received(request, app)
    return document_object(await app.knowledge.add(caller, base_id, name, pieces))


@router.get("/knowledge-bases/{base_id}/documents/{doc_id}")
async def document(base_id: str, doc_id: str, app: TheApp, caller: TheCaller) -> KnowledgeDocumentObject:
    """One document."""
    return document_object(await app.knowledge.document(caller, base_id, doc_id))


@router.put("/knowledge-bases/{base_id}/documents/{doc_id}/content", status_code=202, openapi_extra=MULTIPART)
async def replace_document(
    base_id: str, doc_id: str, request: Request, app: TheApp, caller: TheCaller
) -> KnowledgeDocumentObject:
    """Upload a new version of a document. The old one is searched until the new one is indexed."""
    await app.knowledge.must_own(caller, base_id, doc_id)
    name, pieces = await received(request, app)
    return document_object(await app.knowledge.replace(caller, base_id, doc_id, name, pieces))


@router.post("/knowledge-bases/{base_id}/documents/{doc_id}/again", status_code=202)
async def read_again(base_id: str, doc_id: str, app: TheApp, caller: TheCaller) -> KnowledgeDocumentObject:
    """Read a document once more from its bytes, as a new version: after a failure, or when it could be read better."""
    return document_object(await app.knowledge.again(caller, base_id, doc_id))


@router.delete("/knowledge-bases/{base_id}/documents/{doc_id}", status_code=204)
async def delete_document(base_id: str, doc_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a document with its passages and vectors."""
    await app.knowledge.remove(caller, base_id, doc_id)
    return Response(status_code=204)


@router.get("/knowledge-bases/{base_id}/documents/{doc_id}/passages")
async def passages(
    base_id: str,
    doc_id: str,
    app: TheApp,
    caller: TheCaller,
    first: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> ListObject[PassageObject]:
    """Passages of a document from number `first` on; joined in order they are its text."""
    found = await app.knowledge.passages(caller, base_id, doc_id, first, limit + 1)
    return whole_list([passage_object(one) for one in found[:limit]], "position", has_more=len(found) > limit)


@router.get("/knowledge-bases/{base_id}/searchers")
async def searchers(base_id: str, app: TheApp, caller: TheCaller) -> ListObject[SearcherObject]:
    """The caller's agents and conversations that search a base, the newest first."""
    return whole_list([searcher_object(one) for one in await app.knowledge.searchers(caller, base_id)])


@router.get("/conversations/{conversation_id}/knowledge-bases")
async def bases_of_conversation(conversation_id: str, app: TheApp, caller: TheCaller) -> BoundBasesObject:
    """The bases that a conversation searches."""
    return _bound(await app.knowledge.store.bound_bases(caller, conversation_id))


@router.put("/conversations/{conversation_id}/knowledge-bases")
async def bind_conversation(conversation_id: str, body: BoundBody, app: TheApp, caller: TheCaller) -> BoundBasesObject:
    """Let a conversation search these bases, from its next search on."""
    await app.store.conversations.conversation(caller, conversation_id)
    return _bound(await app.knowledge.bind(caller, conversation_id, body.knowledge_base_ids))


@router.get("/agents/{agent_id}/knowledge-bases")
async def bases_of_agent(agent_id: str, app: TheApp, caller: TheCaller) -> BoundBasesObject:
    """The bases that conversations with this agent search."""
    await app.store.library.agent(caller, agent_id)
    return _bound(await app.knowledge.store.bound_bases(caller, agent_id))


@router.put("/agents/{agent_id}/knowledge-bases")
async def bind_agent(agent_id: str, body: BoundBody, app: TheApp, caller: TheCaller) -> BoundBasesObject:
    """Let conversations with this agent search these bases."""
    await app.store.library.agent(caller, agent_id)
    return _bound(await app.knowledge.bind(caller, agent_id, body.knowledge_base_ids))


def _bound(base_ids: Sequence[str]) -> BoundBasesObject:
    return BoundBasesObject(knowledge_base_ids=list(base_ids))
