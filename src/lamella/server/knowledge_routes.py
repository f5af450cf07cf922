"""Documents of knowledge bases, search in them, and which of them conversations and agents search."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, StringConstraints

from lamella.core.knowledge import Document, KnowledgeHit, ShelfTotals, StoredPassage
from lamella.search.passages import snippet_of
from lamella.search.terms import query_terms
from lamella.server.asked import PREFIX, TheApp, TheCaller, ThePage
from lamella.server.schemas import Body, Id, Json, list_json, whole_list_json
from lamella.server.uploads import received

DOCUMENT_PATHS = f"{PREFIX}/knowledge-bases/[^/]+/documents(?:/[^/]+/content)?"
"""Where documents are uploaded, as a pattern of whole paths."""

router = APIRouter(prefix=PREFIX)


class SearchBody(Body):
    """`POST /api/v1/knowledge-bases/search`. `document_ids` left out is all."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    knowledge_base_ids: Annotated[list[Id], Field(min_length=1, max_length=20)]
    document_ids: Annotated[list[Id], Field(max_length=1000)] | None = None
    max_results: Annotated[int, Field(ge=1, le=100)] = 10


class BoundBody(Body):
    """`PUT …/knowledge-bases` of a conversation or an agent: all that it searches."""

    knowledge_base_ids: Annotated[list[Id], Field(max_length=20)]


@router.post("/knowledge-bases/search")
async def search(body: SearchBody, app: TheApp, caller: TheCaller) -> Json:
    """What of the documents of these bases fits the query, each passage with its scores."""
    found = await app.knowledge.search(caller, body.knowledge_base_ids, body.query, body.max_results, body.document_ids)
    return {
        "object": "search",
        "query": body.query,
        "queries": found.queries,
        "embedder": app.knowledge.searching.embedder,
        "without_meaning": found.without or None,
        "data": [hit_json(hit, query_terms(body.query)) for hit in found.hits],
    }


@router.get("/knowledge-bases/{base_id}/documents")
async def documents(base_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The documents of a base, newest first, with how far each is; and the totals of the base."""
    found = list_json(await app.knowledge.documents(caller, base_id, page), document_json)
    return found | {"totals": totals_json(await app.knowledge.totals(caller, base_id))}


@router.post("/knowledge-bases/{base_id}/documents", status_code=202)
async def add_document(base_id: str, request: Request, app: TheApp, caller: TheCaller) -> Json:
    """Upload a document in the multipart field `file`; it is made ready in the background.

    The same file under the same name again is the document that is there.
    """
    await app.knowledge.must_own(caller, base_id)
    name, pieces = await received(request, app)
    return document_json(await app.knowledge.add(caller, base_id, name, pieces))


@router.get("/knowledge-bases/{base_id}/documents/{doc_id}")
async def document(base_id: str, doc_id: str, app: TheApp, caller: TheCaller) -> Json:
    """One document."""
    return document_json(await app.knowledge.document(caller, base_id, doc_id))


@router.put("/knowledge-bases/{base_id}/documents/{doc_id}/content", status_code=202)
async def replace_document(base_id: str, doc_id: str, request: Request, app: TheApp, caller: TheCaller) -> Json:
    """A new version, uploaded as a document is; what was there before is found until the new one is."""
    await app.knowledge.must_own(caller, base_id, doc_id)
    name, pieces = await received(request, app)
    return document_json(await app.knowledge.replace(caller, base_id, doc_id, name, pieces))


@router.post("/knowledge-bases/{base_id}/documents/{doc_id}/again", status_code=202)
async def read_again(base_id: str, doc_id: str, app: TheApp, caller: TheCaller) -> Json:
    """Read a document once more from its bytes, as a new version: after a failure, or when it could be read better."""
    return document_json(await app.knowledge.again(caller, base_id, doc_id))


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
) -> Json:
    """Passages of a document, from number `first` on: one behind the other they are its text."""
    found = await app.knowledge.passages(caller, base_id, doc_id, first, limit + 1)
    listed = whole_list_json([passage_json(passage) for passage in found[:limit]], "position")
    return listed | {"has_more": len(found) > limit}


@router.get("/knowledge-bases/{base_id}/searchers")
async def searchers(base_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The caller's agents and conversations that search a base, the newest first."""
    found = await app.knowledge.searchers(caller, base_id)
    return whole_list_json([{"id": one.id, "object": one.kind, "name": one.name} for one in found])


@router.get("/conversations/{conversation_id}/knowledge-bases")
async def bases_of_conversation(conversation_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The bases that a conversation searches."""
    return {"knowledge_base_ids": await app.knowledge.store.bound_bases(caller, conversation_id)}


@router.put("/conversations/{conversation_id}/knowledge-bases")
async def bind_conversation(conversation_id: str, body: BoundBody, app: TheApp, caller: TheCaller) -> Json:
    """Let a conversation search these bases, from its next search on."""
    await app.store.conversation(caller, conversation_id)
    return {"knowledge_base_ids": await app.knowledge.bind(caller, conversation_id, body.knowledge_base_ids)}


@router.get("/agents/{agent_id}/knowledge-bases")
async def bases_of_agent(agent_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The bases that conversations with this agent search."""
    await app.store.agent(caller, agent_id)
    return {"knowledge_base_ids": await app.knowledge.store.bound_bases(caller, agent_id)}


@router.put("/agents/{agent_id}/knowledge-bases")
async def bind_agent(agent_id: str, body: BoundBody, app: TheApp, caller: TheCaller) -> Json:
    """Let conversations with this agent search these bases."""
    await app.store.agent(caller, agent_id)
    return {"knowledge_base_ids": await app.knowledge.bind(caller, agent_id, body.knowledge_base_ids)}


def document_json(document: Document) -> Json:
    """A document and how far it is; `code` and `reason` say why it failed or what it waits for."""
    return {
        "id": document.id,
        "object": "document",
        "knowledge_base_id": document.shelf.id or None,
        "name": document.name,
        "media_type": document.media_type or None,
        "size": document.size,
        "state": document.state.value,
        "code": document.code,
        "reason": document.reason,
        "version": document.version,
        "found_version": document.found,
        "pages": document.pages,
        "tokens": document.tokens,
        "passages": document.passages,
        "embedded": document.embedded,
        "embedder": document.model,
        "created_at": document.created_at.isoformat(),
        "updated_at": document.updated_at.isoformat(),
    }


def totals_json(totals: ShelfTotals) -> Json:
    """What stands in a base."""
    return {
        "documents": totals.documents,
        "unfinished": totals.unfinished,
        "found": totals.found,
        "passages": totals.passages,
        "embedded": totals.embedded,
        "tokens": totals.tokens,
        "states": {state.value: count for state, count in totals.states.items()},
    }


def passage_json(passage: StoredPassage) -> Json:
    """A passage: characters `start` to `end` of its document."""
    return {
        "object": "passage",
        "document_id": passage.document_id,
        "position": passage.position,
        "start": passage.start,
        "end": passage.end,
        "headings": passage.headings,
        "page": passage.page,
        "tokens": passage.tokens,
        "text": passage.text,
    }


def hit_json(hit: KnowledgeHit, terms: tuple[str, ...]) -> Json:
    """A passage that was found, with its scores and a snippet around the words of the query."""
    snippet = snippet_of(hit.passage.text, terms)
    return passage_json(hit.passage) | {
        "object": "search.hit",
        "title": hit.document.name,
        "knowledge_base_id": hit.document.shelf.id or None,
        "score": round(hit.score, 4),
        "words": round(hit.words, 4),
        "similarity": round(hit.similarity, 4),
        "snippet": {
            "text": snippet.text,
            "start": snippet.start,
            "marks": [{"start": left, "end": right} for left, right in snippet.marks],
        },
    }
