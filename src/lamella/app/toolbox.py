"""The tools of a server: which are shipped, and which settings switch on."""

from __future__ import annotations

from lamella.app.knowledge import Knowledge
from lamella.knowledge.extraction import ExtractionLimits, ProcessExtractor
from lamella.sessions.recall.recall import Recall
from lamella.sessions.recall.tools import ReadMessage, SearchConversation
from lamella.settings import Settings
from lamella.storage.store import SqlStore
from lamella.tooling.tool import Tool
from lamella.tools.knowledge_base_search import KnowledgeBaseSearch, SearchLimits
from lamella.tools.read_file import ReadFile
from lamella.tools.web.addresses import AddressPolicy, allowances
from lamella.tools.web.fetching import Fetcher, FetchLimits
from lamella.tools.web.open_url import OpenUrl

SHIPPED_TOOLS: tuple[Tool, ...] = (ReadFile(),)
"""The tools that need no store: what a replay has."""


SEARCH_SECONDS = 30.0
"""How long a search of knowledge bases may take, beside what a second model says of those with restricted access."""


def shipped_tools(store: SqlStore, recall: Recall, knowledge: Knowledge, settings: Settings) -> tuple[Tool, ...]:
    """The tools of a server: files, knowledge bases, and what was said before."""
    calls = settings.knowledge_calls_per_turn, settings.knowledge_calls_per_conversation
    limits = SearchLimits(*calls, settings.knowledge_result_tokens)
    searching = KnowledgeBaseSearch(knowledge.reader, limits, SEARCH_SECONDS + settings.restricted_timeout)
    if settings.recall == "off":
        return (ReadFile(store), searching)
    everywhere = settings.recall == "user"
    found = SearchConversation(recall, everywhere=everywhere), ReadMessage(recall, everywhere=everywhere)
    return (ReadFile(store), searching, *found)


def web_tools(settings: Settings) -> tuple[Tool, ...]:
    """The tools that reach the web: none, unless they are switched on. Raises `ConfigurationError`."""
    policy = AddressPolicy(allowances(settings.open_url_allow))
    if not settings.open_url:
        return ()
    limits = FetchLimits()
    extractor = ProcessExtractor(ExtractionLimits(max_bytes=limits.max_bytes, seconds=30.0))
    return (OpenUrl(Fetcher(policy, limits=limits), extractor),)
