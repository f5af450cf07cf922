"""Documents of knowledge bases, for callers who may change or read them (docs/reference/access.md says who may).

`Knowledge` has the routes' use cases. The reader of the search tool finds the bases of the conversation, the agent and
the message that the caller may read, and the files of the project.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from lamella.app.auxiliary_models import ServedModels, word_lists
from lamella.app.base_descriptions import BaseDescriptions, describer
from lamella.core.access import BaseContent, GrantLevel, KnowledgeBase, RestrictedReader, RestrictedUse
from lamella.core.clock import Clock
from lamella.core.errors import InvalidRequest, NotFound, PermissionDenied, ToolFailed
from lamella.core.ids import Ids
from lamella.core.knowledge import Document, KnowledgeFound, Searcher, Shelf, ShelfTotals, StoredPassage
from lamella.core.ports import Embedder
from lamella.core.records import Caller, Page, PageQuery
from lamella.knowledge.bound_bases import bound_bases
from lamella.knowledge.document_reader import DocumentReader
from lamella.knowledge.document_uploads import DocumentUploads
from lamella.knowledge.extraction import ExtractionLimits, ProcessExtractor
from lamella.knowledge.ingestion import Ingestion, IngestionTools
from lamella.knowledge.restricted.base_terms import BaseTerms, FoundTerm
from lamella.knowledge.restricted.disclosed import DisclosedPassage, DisclosedPassages
from lamella.knowledge.restricted.material import Chunk
from lamella.knowledge.restricted.metadata import SafeMetadataSource
from lamella.knowledge.restricted.readiness import Readiness, ReadinessCheck
from lamella.knowledge.restricted.safe_answers import Answered, SafeAnswers, SafeSettings
from lamella.knowledge.restricted.searching import DailyLimits, RestrictedBase, RestrictedQuestion, RestrictedSearch
from lamella.knowledge.restricted.summary import SafeSummary
from lamella.knowledge.searching import KnowledgeSearch, Searched
from lamella.settings import Settings
from lamella.storage.bases import AccessRows
from lamella.storage.file_store import FileStore
from lamella.storage.knowledge.store import KnowledgeStore
from lamella.storage.store import Store
from lamella.tooling.tool import ToolScope
from lamella.tools.knowledge_base_search import SearchReach

NO_ACCESS = "you have no access to it"


@dataclass(frozen=True, slots=True)
class StoredReader:
    """A `KnowledgeReader` over the stores."""

    access: AccessRows
    store: KnowledgeStore
    searching: KnowledgeSearch
    restricted: RestrictedSearch
    metadata: SafeMetadataSource

    async def reach(self, scope: ToolScope, base_ids: Sequence[str]) -> SearchReach:
        """See `KnowledgeReader.reach`. The caller's level on each base is checked again."""
        caller = scope.caller
        bound = await bound_bases(self.store, caller, scope.conversation_id, scope.agent_id, scope.base_ids)
        shelves, names, refused, restricted = [], {}, [], []
        for base_id in (one.id for one in bound):
            if base_ids and base_id not in base_ids:
                continue
            try:
                base = await self.access.base(caller, base_id)
            except NotFound:
                refused.append((base_id, NO_ACCESS))
                continue
            if base.level is GrantLevel.FULL:
                shelves.append(Shelf(base.owner, base.id))
                names[base.id] = base.content.name
            elif base.level is GrantLevel.RESTRICTED:
                named = (await self.metadata.of(base)).name
                restricted.append(RestrictedBase(base.id, base.owner, named, base.content.restricted_level))
            else:
                refused.append((base.content.name, NO_ACCESS))
        reach = SearchReach(Searched(tuple(shelves)), names, refused, restricted)
        return await self._with_files(scope, reach) if scope.project_files and not base_ids else reach

    async def _with_files(self, scope: ToolScope, reach: SearchReach) -> SearchReach:
        """With the files of the project: of their shelf only these."""
        shelves = (*reach.where.shelves, Shelf(scope.caller.user_id))
        documents = {id for shelf in reach.where.shelves for id in await self._ids(shelf)}
        return replace(reach, where=Searched(shelves, frozenset(documents | set(scope.project_files))))

    async def narrowed(self, where: Searched, titles: Sequence[str]) -> Searched:
        """See `KnowledgeReader.narrowed`."""
        wanted = {title.strip().casefold() for title in titles}
        found = [document for document in await self._documents(where) if document.name.casefold() in wanted]
        missing = wanted - {document.name.casefold() for document in found}
        if missing:
            named = ", ".join(f"“{title[:80]}”" for title in sorted(missing))
            raise ToolFailed(f"unknown_document: There is no document {named} in what can be searched.")
        return Searched(where.shelves, frozenset(document.id for document in found))

    async def totals(self, where: Searched) -> ShelfTotals:
        """See `KnowledgeReader.totals`."""
        all_of = [await self.store.shelf_totals(shelf, where.documents) for shelf in where.shelves]
        states = {state: sum(one.states.get(state, 0) for one in all_of) for one in all_of for state in one.states}
        return ShelfTotals(
            states,
            sum(one.found for one in all_of),
            sum(one.passages for one in all_of),
            sum(one.tokens for one in all_of),
            sum(one.embedded for one in all_of),
        )

    async def search(self, where: Searched, query: str, limit: int) -> KnowledgeFound:
        """See `KnowledgeReader.search`."""
        return await self.searching.search(where, query, limit)

    async def everything(self, where: Searched) -> Sequence[tuple[Document, Sequence[StoredPassage]]]:
        """See `KnowledgeReader.everything`."""
        return [
            (document, await self.store.passages_of(Caller(document.shelf.owner), document.id))
            for document in await self._documents(where)
            if document.found is not None
        ]

    async def summarised(
        self, scope: ToolScope, bases: Sequence[RestrictedBase], query: str, limit: int
    ) -> Sequence[SafeSummary]:
        """See `KnowledgeReader.summarised`."""
        asked = RestrictedQuestion(scope.caller, query, limit)
        return [answered.safe for answered in await self.restricted.answers_of(asked, bases)]

    async def count(self, caller: Caller, conversation_id: str, turn_id: str) -> tuple[int, int]:
        """See `KnowledgeReader.count`."""
        return await self.store.count_search(caller, conversation_id, turn_id)

    async def _documents(self, where: Searched) -> list[Document]:
        found: list[Document] = []
        for shelf in where.shelves:
            after: str | None = None
            while True:
                page = await self.store.documents_on_shelf(shelf, PageQuery(100, after, "asc"))
                found += [one for one in page.data if where.documents is None or one.id in where.documents]
                if not page.has_more:
                    break
                after = page.data[-1].id
        return found

    async def _ids(self, shelf: Shelf) -> list[str]:
        return [document.id for document in await self._documents(Searched((shelf,)))]


MOST_SEARCHERS = 200
"""Conversations and agents of a base that are named."""

READING_SECONDS = 300.0
"""The time limit for reading a document in the background."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The documents of all knowledge bases, and the files of projects."""

    access: AccessRows
    store: KnowledgeStore
    ingestion: Ingestion
    deposits: DocumentUploads
    searching: KnowledgeSearch
    restricted: RestrictedSearch
    metadata: SafeMetadataSource
    ready: ReadinessCheck
    disclosures: DisclosedPassages
    terms: BaseTerms
    descriptions: BaseDescriptions | None = None

    def start(self) -> None:
        """Start the background work."""
        self.ingestion.start()
        self.restricted.answers.start()
        self.terms.start()
        if self.descriptions is not None:
            self.descriptions.start()

    async def close(self) -> None:
        """Stop. The next start continues."""
        await self.restricted.answers.close()
        await self.ingestion.close()
        await self.terms.close()
        if self.descriptions is not None:
            await self.descriptions.close()

    async def shown(self, base: KnowledgeBase) -> KnowledgeBase:
        """The base as its caller may be told of it: to a restricted reader, name and description through the guard."""
        if base.level is not GrantLevel.RESTRICTED:
            return base
        safe = await self.metadata.of(base)
        return replace(base, content=replace(base.content, name=safe.name, description=safe.description))

    @property
    def reader(self) -> StoredReader:
        """The search tool's access to documents."""
        return StoredReader(self.access, self.store, self.searching, self.restricted, self.metadata)

    async def bind(self, caller: Caller, subject_id: str, base_ids: Sequence[str]) -> tuple[str, ...]:
        """Let a conversation or an agent of the caller's search these bases, which the caller must see.

        Raises `NotFound`. Access is checked with each search.
        """
        for base_id in base_ids:
            await self.access.base(caller, base_id)
        await self.store.bind_bases(caller, subject_id, base_ids)
        return await self.store.bound_bases(caller, subject_id)

    async def add(self, caller: Caller, base_id: str, name: str, pieces: AsyncIterator[bytes]) -> Document:
        """A new document in a base of the caller's. Raises as `DocumentUploads.add` does, `NotFound`,
        `PermissionDenied`.
        """
        return await self.deposits.add(await self._own(caller, base_id), name, pieces)

    async def must_own(self, caller: Caller, base_id: str, document_id: str | None = None) -> None:
        """Raises `NotFound` or `PermissionDenied` if the caller may not change a base's documents, or this one."""
        shelf = await self._own(caller, base_id)
        if document_id is not None:
            await self._of(shelf, document_id)

    async def replace(
        self, caller: Caller, base_id: str, document_id: str, name: str, pieces: AsyncIterator[bytes]
    ) -> Document:
        """A new version of a document; raises as `add` does."""
        await self._of(await self._own(caller, base_id), document_id)
        return await self.deposits.replace(caller, document_id, name, pieces)

    async def remove(self, caller: Caller, base_id: str, document_id: str) -> None:
        """Remove a document with its passages and vectors."""
        shelf = await self._own(caller, base_id)
        await self._of(shelf, document_id)
        await self.deposits.remove(caller, document_id)
        await self.ingestion.tell(shelf)

    async def again(self, caller: Caller, base_id: str, document_id: str) -> Document:
        """Read a document of a base of the caller's once more."""
        await self._of(await self._own(caller, base_id), document_id)
        return await self.deposits.again(caller, document_id)

    async def searchers(self, caller: Caller, base_id: str) -> tuple[Searcher, ...]:
        """The caller's agents and conversations that search a base which the caller can see."""
        await self.access.base(caller, base_id)
        return await self.store.searchers(caller, base_id, MOST_SEARCHERS)

    async def documents(self, caller: Caller, base_id: str, query: PageQuery) -> Page[Document]:
        """The documents of a base that the caller may read all of."""
        return await self.store.documents_on_shelf(await self._readable(caller, base_id), query)

    async def document(self, caller: Caller, base_id: str, document_id: str) -> Document:
        """One document of a base that the caller may read."""
        return await self._of(await self._readable(caller, base_id), document_id)

    async def passages(
        self, caller: Caller, base_id: str, document_id: str, first: int, limit: int
    ) -> tuple[StoredPassage, ...]:
        """Passages of a document that the caller may read, from number `first` on."""
        document = await self._of(await self._readable(caller, base_id), document_id)
        return await self.store.passages_of(Caller(document.shelf.owner), document_id, first, limit)

    async def totals(self, caller: Caller, base_id: str) -> ShelfTotals:
        """The totals of a base that the caller may read."""
        return await self.store.shelf_totals(await self._readable(caller, base_id))

    async def search(
        self, caller: Caller, base_ids: Sequence[str], query: str, limit: int, documents: Sequence[str] | None = None
    ) -> KnowledgeFound:
        """Search bases that the caller may read in full."""
        if not base_ids:
            raise InvalidRequest("No knowledge base is named.", hint="Name one or more.", param="knowledge_base_ids")
        shelves = [await self._readable(caller, base_id) for base_id in dict.fromkeys(base_ids)]
        only = frozenset(documents) if documents is not None else None
        return await self.searching.search(Searched(tuple(shelves), only), query, limit)

    async def restricted_preview(
        self, caller: Caller, base_id: str, query: str, limit: int
    ) -> tuple[Answered, tuple[Chunk, ...]]:
        """The answer that a restricted reader of the caller's base would get, and the passages it is made from.

        Raises `InvalidRequest`, `NotFound` and `PermissionDenied`.
        """
        base = await self._shared(caller, base_id)
        if not query.strip():
            raise InvalidRequest("The query is empty.", hint="Say what to look for.", param="query")
        return await self.restricted.preview(RestrictedBase(base.id, base.owner, base.content.name), query, limit)

    async def readiness(self, caller: Caller, base_id: str, *, documents: bool = True) -> Readiness:
        """How ready the caller's own base is for restricted readers. Raises `NotFound` and `PermissionDenied`.

        Without `documents` only what the server lacks.
        """
        base = await self._shared(caller, base_id)
        return await self.ready.of(base) if documents else Readiness(self.ready.missing, self.ready.has_model)

    async def _shared(self, caller: Caller, base_id: str) -> KnowledgeBase:
        """The caller's own base, before or after it is shared."""
        base = await self.access.base(caller, base_id)
        if base.owner != caller.user_id:
            raise PermissionDenied(
                "Only the owner of a knowledge base can preview what its restricted readers are told.",
                hint="Ask the question in a conversation that searches the base.",
            )
        return base

    async def restricted_uses(self, caller: Caller, base_id: str, query: PageQuery) -> Page[RestrictedUse]:
        """The questions asked of the caller's base with restricted access. Raises `NotFound` and `PermissionDenied`."""
        return await self.restricted.uses.restricted_uses(caller, base_id, query)

    async def restricted_readers(self, caller: Caller, base_id: str, days: int) -> tuple[RestrictedReader, ...]:
        """Who asked a base of the caller's with restricted access in the last days, and which bounds were reached."""
        since = self.restricted.clock.now() - timedelta(days=days)
        return await self.restricted.uses.restricted_readers(caller, base_id, since)

    async def restricted_terms(self, caller: Caller, base_id: str) -> tuple[BaseContent, tuple[FoundTerm, ...] | None]:
        """What the owner of a base says of its names, and the names that its documents give, None while these are not
        found. Raises `NotFound` and `PermissionDenied`.
        """
        shelf = await self._own(caller, base_id)
        return (await self.access.base(caller, base_id)).content, await self.terms.found(shelf)

    async def disclosed(
        self, caller: Caller, base_id: str, document_id: str, limit: int
    ) -> tuple[tuple[DisclosedPassage, ...], bool]:
        """What restricted readers got of a document of the caller's own base."""
        return await self.disclosures.of(caller, await self._of(await self._own(caller, base_id), document_id), limit)

    async def _own(self, caller: Caller, base_id: str) -> Shelf:
        base = await self.access.base(caller, base_id)
        if base.owner != caller.user_id:
            raise PermissionDenied(
                "Only the owner of a knowledge base may change its documents.", hint="Ask its owner."
            )
        return shelf_of(base)

    async def _readable(self, caller: Caller, base_id: str) -> Shelf:
        base = await self.access.base(caller, base_id)
        if base.level is not GrantLevel.FULL:
            named = (await self.shown(base)).content.name
            raise PermissionDenied(
                f"You may not read the documents of “{named}”.", hint="Ask its owner for full access."
            )
        return shelf_of(base)

    async def _of(self, shelf: Shelf, document_id: str) -> Document:
        document = await self.store.document_on_shelf(Caller(shelf.owner), document_id)
        if document.shelf != shelf:
            raise NotFound(f"There is no document {document_id}.", param="document_id")
        return document


def shelf_of(base: KnowledgeBase) -> Shelf:
    """The shelf of a base."""
    return Shelf(base.owner, base.id)


def knowledge_of(
    settings: Settings,
    store: Store,
    uploads: FileStore,
    embedder: Embedder,
    served: ServedModels,
    clock: Clock,
    ids: Ids,
) -> Knowledge:
    """The documents of a server. Without a restricted model or word lists, restricted bases give no answers."""
    documents, lexicons = store.knowledge, word_lists()
    limits = ExtractionLimits(max_bytes=settings.max_upload_bytes, seconds=READING_SECONDS)
    making = IngestionTools(DocumentReader(store.files, uploads, ProcessExtractor(limits, children=1)), embedder)
    terms = BaseTerms(documents, store.access, store.jobs, clock, lexicons)
    descriptions = None
    if settings.knowledge_summaries and not served.main.is_demonstration:
        describing = describer(served.main, served.second)
        descriptions = BaseDescriptions(store.access, documents, store.jobs, describing, clock)

    async def changed(shelf: Shelf) -> None:
        await terms.changed(shelf)
        if descriptions is not None:
            await descriptions.changed(shelf)

    ingestion = Ingestion(documents, making, uploads, store.jobs, clock, changed, store.erasure)
    searching = KnowledgeSearch(documents, embedder)
    answers = SafeAnswers(served.restricted, _safe_settings(settings), lexicons)
    daily = DailyLimits(settings.restricted_answers_per_day, settings.restricted_short_answers_per_day)
    metadata = SafeMetadataSource(documents, searching, terms, lexicons)
    return Knowledge(
        access=store.access,
        store=documents,
        ingestion=ingestion,
        deposits=DocumentUploads(documents, uploads, ingestion.wake, clock, ids, settings.max_upload_bytes),
        searching=searching,
        restricted=RestrictedSearch(store.access, documents, searching, answers, terms, store.access, clock, daily),
        metadata=metadata,
        ready=ReadinessCheck(documents, metadata, terms, lexicons, answers.missing, served.restricted is not None),
        disclosures=DisclosedPassages(documents, store.access, terms, lexicons),
        terms=terms,
        descriptions=descriptions,
    )


def _safe_settings(settings: Settings) -> SafeSettings:
    return SafeSettings(
        seconds=settings.restricted_timeout,
        at_once=settings.restricted_at_once,
        confidence=settings.restricted_confidence,
        logs_requests=settings.log_llm_requests,
    )
