"""What the search tool reads: the bases of conversation, agent and message that the caller may, and project files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.core.access import GrantLevel
from lamella.core.access_ports import Access
from lamella.core.errors import NotFound, ToolFailed
from lamella.core.knowledge import Document, KnowledgeFound, Shelf, ShelfTotals, StoredPassage
from lamella.core.knowledge_port import KnowledgeStore
from lamella.core.records import Caller, PageQuery
from lamella.knowledge.bound_bases import bound_bases
from lamella.knowledge.restricted.metadata import SafeMetadataSource
from lamella.knowledge.restricted.searching import Asked, RestrictedBase, RestrictedSearch
from lamella.knowledge.restricted.summary import SafeSummary
from lamella.knowledge.searching import KnowledgeSearch, Searched
from lamella.tooling.tool import ToolScope
from lamella.tools.knowledge_base_search import Reach

MOST_SAID = 50_000
"""Characters of what the user wrote that may be said to them again of a restricted base."""

NO_ACCESS = "you have no access to it"


@dataclass(frozen=True, slots=True)
class StoredReader:
    """A `KnowledgeReader` over the stores."""

    access: Access
    store: KnowledgeStore
    searching: KnowledgeSearch
    restricted: RestrictedSearch
    metadata: SafeMetadataSource

    async def reach(self, scope: ToolScope, base_ids: Sequence[str]) -> Reach:
        """See `KnowledgeReader.reach`. The caller's level for each base is asked for anew."""
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
                restricted.append(RestrictedBase(base.id, base.owner, named))
            else:
                refused.append((base.content.name, NO_ACCESS))
        reach = Reach(Searched(tuple(shelves)), names, refused, restricted)
        return await self._with_files(scope, reach) if scope.project_files and not base_ids else reach

    async def _with_files(self, scope: ToolScope, reach: Reach) -> Reach:
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
        asked = Asked(scope.caller, query, tuple(_said(scope)), limit)
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


def _said(scope: ToolScope) -> list[str]:
    """What the user wrote, the newest first, as far back as `MOST_SAID` goes."""
    said, room = [], MOST_SAID
    for turn in reversed(scope.turns):
        room -= len(turn.user.text)
        if room < 0:
            break
        said.append(turn.user.text)
    return said
