"""Search gives the same on SQLite and on PostgreSQL: the same passages in the same order, with the same scores.

The documents are real ones: this repository's pages, Python's manual, and what the machine has of licences, change
logs, manual pages and translations (Chinese, Japanese, Korean, Russian, Thai, Arabic, Hindi, Greek, German).
"""

from __future__ import annotations

import gettext
import gzip
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from lamella.core.knowledge import KnowledgeQuery
from lamella.search.terms import query_words
from lamella.storage import Store
from lamella.storage.knowledge.store import KnowledgeStore
from lamella.storage.recall.store import RecallIndex
from postgres import PostgresServer

from .conftest import PostgresBacking, SqliteBacking
from .examples import ANN, conversation
from .test_knowledge import LEXICAL, OTHER, SHELF, document, job, publish
from .test_recall import find as find_said
from .test_recall import say

pytestmark = pytest.mark.anyio

REPOSITORY = Path(__file__).parents[2]
PAGES = ("README.md", "LICENSE", "CHANGELOG.md", "docs/explanation/*.md", "docs/decisions/00[1-4]*.md")
ON_THE_MACHINE = (
    "/usr/share/common-licenses/*",
    "/usr/share/doc/*/changelog.Debian.gz",
    "/usr/share/man/man7/*.7.gz",
    "/usr/share/man/[djrkz]*/man1/*.1.gz",
)
LANGUAGES = ("zh_CN", "ja", "ko", "ru", "th", "ar", "hi", "el", "de")
LONGEST, EACH = 8_000, 8
"""Characters of a document at most, and documents of a kind, about."""

OWN = {
    "zh": "预算报告必须在星期五之前提交。灯塔在港口的北边，渡轮每天早上七点离开。我们在东京都开会。",
    "ja": "明日は会議があります。灯台は港の北にあり、フェリーは毎朝七時に出発します。予算の報告書を提出してください。",
    "ru": "Отчёт о бюджете нужно сдать до пятницы. Маяк стоит к северу от гавани, паром уходит каждое утро в семь.",
    "th": "ต้องส่งรายงานงบประมาณก่อนวันศุกร์ ประภาคารอยู่ทางเหนือของท่าเรือ เรือข้ามฟากออกทุกเช้าเจ็ดโมง",
    "de": "Der Bericht über den Haushalt ist bis Freitag fällig. Die Brücken am Hafen, der Leuchtturm.",
}


def text_of(path: Path) -> str:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode(errors="replace").replace("\0", "")


def translations(language: str) -> Iterator[str]:
    """The texts of a language in the catalogues of this machine's programs."""
    for path in sorted(Path("/usr/share/locale").glob(f"{language}/LC_MESSAGES/*.mo"))[:EACH]:
        with path.open("rb") as file:
            found = vars(gettext.GNUTranslations(file))["_catalog"]
        yield "\n\n".join(value for key, value in found.items() if key and isinstance(value, str))


def documents() -> dict[str, str]:
    """Texts by name, some of each kind."""
    found = dict(OWN)
    found |= {str(path): text_of(path) for pattern in PAGES for path in sorted(REPOSITORY.glob(pattern))}
    found |= {f"topic {name}": topics[name] for name in sorted(topics)[:: len(topics) // EACH]}
    for pattern in ON_THE_MACHINE:
        paths = [path for path in sorted(Path("/").glob(pattern[1:])) if path.is_file()]
        found |= {str(path): text_of(path) for path in paths[:: max(1, len(paths) // EACH)]}
    for language in LANGUAGES:
        found |= {f"{language} {number}": text for number, text in enumerate(translations(language))}
    return {name: text[:LONGEST] for name, text in found.items() if text.strip()}


DOCUMENTS = documents()


def queries() -> list[str]:
    """Pieces of the documents, of one word to a paragraph, some with slips, and some of two languages."""
    chance = random.Random(7)
    made = [*OWN.values(), "lighthouse", "渡轮", "паромы", "Brücke Haushalte", "フェリー", "?!"]
    names = sorted(DOCUMENTS)
    for size in (1, 2, 3, 5, 8, 13, 40, 200):
        for _ in range(6):
            words = DOCUMENTS[chance.choice(names)].split()
            start = chance.randrange(max(1, len(words) - size))
            piece = words[start : start + size]
            chance.shuffle(piece)
            made.append(" ".join(piece)[:2_000])
    made += [f"{one[:60]} {other[:60]}" for one, other in zip(made[8:40], made[40:72], strict=False)]
    made += [one.replace("e", "", 1) for one in made[20:40]]
    return [one for one in made if one.strip()]


@dataclass(frozen=True, slots=True)
class Both:
    """The same content on both databases."""

    stores: Sequence[Store]

    @property
    def knowledge(self) -> list[KnowledgeStore]:
        return [store.knowledge for store in self.stores]

    @property
    def recall(self) -> list[RecallIndex]:
        return [RecallIndex(store.database) for store in self.stores]


@pytest.fixture
async def both(migrated: Path, tmp_path: Path, postgres: PostgresServer, anyio_backend: str) -> AsyncIterator[Both]:
    backings = SqliteBacking.copied(migrated, tmp_path), PostgresBacking(postgres, postgres.copied())
    async with AsyncExitStack() as opened:
        yield Both([await opened.enter_async_context(await backing.open()) for backing in backings])


Found = list[tuple[str, int, float, float, float]]


async def hits(knowledge: KnowledgeStore, query: str, documents: frozenset[str] | None = None) -> Found:
    [vector] = LEXICAL.vectors([query])
    asked = KnowledgeQuery(query_words(query), LEXICAL.space, vector, (SHELF, OTHER), documents, 50)
    found = await knowledge.search_knowledge(asked)
    return [(hit.document.id, hit.passage.position, hit.score, hit.words, hit.similarity) for hit in found]


def check_alike(one: Found, other: Found) -> None:
    """The same passages in the same order, their scores equal to a billionth."""
    assert [hit[:2] for hit in one] == [hit[:2] for hit in other]
    for here, there in zip(one, other, strict=True):
        assert here[2:] == pytest.approx(there[2:], rel=1e-9, abs=1e-12)


async def test_documents_are_found_the_same_on_both_databases(both: Both) -> None:
    assert len(DOCUMENTS) > 40
    for knowledge in both.knowledge:
        for number, text in enumerate(DOCUMENTS.values()):
            await publish(knowledge, f"doc_{number:03}", text, shelf=OTHER if number % 5 == 0 else SHELF)
    asked = queries()
    counts = []
    for query in asked:
        one, other = [await hits(knowledge, query) for knowledge in both.knowledge]
        check_alike(one, other)
        counts.append(len(one))
    assert sum(count > 10 for count in counts) > len(asked) * 0.7, "most queries find much"
    for knowledge in both.knowledge:  # replaced and removed ones, and some documents alone
        await knowledge.replace_document(ANN, replace(document("doc_001"), digest="new"), job("doc_001"))
        await publish(knowledge, "doc_001", DOCUMENTS["ru"] * 3, version=2)
        for number in range(10, 20):
            await knowledge.remove_document(ANN, f"doc_{number:03}")
            await knowledge.clear_out(ANN, f"doc_{number:03}", 1_000)
    few = frozenset(f"doc_{number:03}" for number in range(40))
    for query in asked[::3]:
        for only in (None, few):
            one, other = [await hits(knowledge, query, only) for knowledge in both.knowledge]
            check_alike(one, other)
            assert not {f"doc_{number:03}" for number in range(10, 20)} & {hit[0] for hit in one}


async def test_messages_are_found_the_same_on_both_databases(both: Both) -> None:
    names = sorted(DOCUMENTS)
    for store, recall in zip(both.stores, both.recall, strict=True):
        for of in ("conv_1", "conv_2"):
            await store.conversations.create_conversation(ANN, conversation(of))
        for number, name in enumerate(names[:: len(names) // 40]):
            words = DOCUMENTS[name][:3_000].split()
            question, answer = " ".join(words[:40]), " ".join(words[40:200])
            of = "conv_2" if number % 3 == 0 else "conv_1"
            await say(store, recall, number, question or "?", answer or "!", of=of)
    for number, query in enumerate(queries()):
        within = (None, "conv_1", "conv_2")[number % 3]
        one, other = [await find_said(recall, query[:300], conversation_id=within, limit=50) for recall in both.recall]
        assert [hit.source.reference for hit in one.hits] == [hit.source.reference for hit in other.hits]
        assert [hit.score for hit in one.hits] == pytest.approx([hit.score for hit in other.hits], rel=1e-9)
        assert [s.session_id for s in one.sessions] == [s.session_id for s in other.sessions]
        for here, there in zip(one.sessions, other.sessions, strict=True):
            assert (here.score, here.covers) == pytest.approx((there.score, there.covers), rel=1e-9)
