"""Decides the answerer's reply: what a question wants, and whether to search, read a listed file, quote or summarise.

It says so if there is nothing to quote. Asked about passages that the asker may not read, it says only whether they
deal with the question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lamella_simulator.answerer import wording
from lamella_simulator.answerer.conversation import Called, Conversation, Document, PastMessage
from lamella_simulator.answerer.ranking import Candidate, Match, Query, candidates, central, distinct, rank
from lamella_simulator.answerer.words import terms, words
from lamella_simulator.replies import Reply, ToolCall

Wish = Literal["answer", "summary", "title", "greeting", "thanks"]
SUMMARY = re.compile(
    r"\b(summar\w*|overview|tl;?dr|gist|key (?:points|takeaways|facts)|main (?:points|ideas?)|abstract of|recap"
    r"|what(?:'s| is| are) (?:\w+ ){0,4}about|what(?:'s| is) in (?:this|the|my|it)|zusammenfass\w*|fasse?\b.*\bzusammen"
    r"|überblick|worum geht|kernaussagen?|résum\w*|de quoi (?:parle|s'agit)|resum\w*|de qué (?:trata|va)|riassun\w*"
    r"|di cosa (?:parla|tratta)|do que se trata|samenvat\w*|кратк\w*|резюм\w*|о чём|о чем)\b"
    r"|要約|まとめて|概要|总结|總結|摘要|概述|요약",
    re.IGNORECASE,
)
TITLE = re.compile(r"\b(?:title|name)\b.{0,60}\b(?:conversation|chat|dialogue|exchange)\b", re.IGNORECASE | re.DOTALL)
GREETING = re.compile(
    r"\A\W*(hi|hello|hey|good (?:morning|afternoon|evening|day)|hallo|guten (?:tag|morgen|abend)|moin|servus|bonjour"
    r"|salut|hola|buenos días|ciao|olá|привет|здравствуйте|добрый день"
    r"|こんにちは|你好|您好|안녕하세요)\b[\w\s,!.]{0,24}\W*\Z",
    re.IGNORECASE,
)
THANKS = re.compile(
    r"\A\W*(thanks?(?: you)?|thx|great|ok(?:ay)?|perfect|danke(?: schön)?|merci|gracias|grazie|obrigad[oa]|спасибо"
    r"|ありがとう\w*|谢谢|감사합니다)\b[\w\s,!.]{0,24}\W*\Z",
    re.IGNORECASE,
)
FOLLOW_UP = re.compile(
    r"\A\W*(and|but|so|then|what about|how about|also|und|aber|et|y|e|а|и)\b|\b(it|its|that|those|they|them|this one"
    r"|the (?:first|second|third|fourth|fifth|other|last|next) one|same|dazu|davon|dort)\b",
    re.IGNORECASE,
)
ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "erste": 1, "zweite": 2, "dritte": 3,
    "premier": 1, "première": 1, "deuxième": 2, "troisième": 3, "primero": 1, "segundo": 2, "tercero": 3,
    "primera": 1, "segunda": 2, "tercera": 3, "первый": 1, "второй": 2, "третий": 3,
}  # fmt: skip
THING = "one|document|file|doc|pdf|text|report|dokument|datei|fichier|documento|документ|файл"
ORDINAL = re.compile(
    rf"\b({'|'.join(ORDINALS)})n?\b(?=\s+(?:{THING})\b|\W*\Z)|\b(?:document|file|doc|dokument|datei)\s+#?(\d{{1,2}})\b",
    re.IGNORECASE,
)
EARLIER_WEIGHT = 0.35
FEW_WORDS = 3


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    wish: Wish
    query: Query
    ordinal: int | None
    """The place of a document that the question names: "the second one", "document 3"."""


def understand(questions: Sequence[str]) -> Question:
    """The last of a conversation's questions; earlier ones lend their words when it is a follow-up."""
    text = questions[-1] if questions else ""
    own = [stem for stem in words(text) if stem not in ORDINAL_STEMS]
    weights: dict[str, float] = dict.fromkeys(own, 1.0)
    if len(own) <= FEW_WORDS and (not own or FOLLOW_UP.search(text)):
        for distance, earlier in enumerate(reversed(questions[:-1][-2:]), start=1):
            for stem in words(earlier):
                weights.setdefault(stem, EARLIER_WEIGHT / distance if own else 1.0 / distance)
    return Question(text, wish_of(text), Query(weights), ordinal_of(text))


def wish_of(text: str) -> Wish:
    if GREETING.match(text):
        return "greeting"
    if THANKS.match(text):
        return "thanks"
    if TITLE.search(text):
        return "title"
    return "summary" if SUMMARY.search(text) else "answer"


def ordinal_of(text: str) -> int | None:
    found = ORDINAL.search(text)
    if found is None:
        return None
    return ORDINALS[found[1].casefold()] if found[1] else int(found[2])


ORDINAL_STEMS = frozenset(stem for name in ORDINALS for stem in words(name))


MOST_QUOTES = 4
FLOOR = 0.55
ENOUGH = 0.2
"""Share of a question's weight that a sentence must carry to be quoted."""
GOOD = 0.5
"""Share from which on no further file is opened."""
MOST_READS = 3
TITLE_WORDS = 7


@dataclass(frozen=True, slots=True)
class Desk:
    """What lies open for a question: documents with text, those only listed, and their sentences."""

    question: Question
    open: tuple[Document, ...]
    listed: tuple[Document, ...]
    pool: tuple[Candidate, ...]


def reply(conversation: Conversation) -> Reply:
    """The honest answer to a request, from its own text alone; the same request gives the same answer."""
    safe = safe_summary(conversation)
    if safe is not None:
        return safe
    question = understand(conversation.questions)
    documents = conversation.documents()
    match question.wish:
        case "greeting":
            shown = wording.GREETING_WITH_DOCUMENTS.format(names=wording.names(documents))
            return Reply(text=shown if documents else wording.GREETING)
        case "title":
            return Reply(text=title_of(conversation))
        case "thanks" if documents:
            return Reply(text=wording.THANKS)
        case "summary" if not documents and len(conversation.questions) > 2:
            return summarise_conversation(conversation)
    if not documents:
        return search(conversation, question) or Reply(text=without_documents(conversation))
    desk = lay_out(question, documents)
    matches = rank(question.query, desk.pool)
    is_answered = bool(matches) and matches[0].coverage >= GOOD
    searched = None if is_answered else search(conversation, question)
    found = searched or read_on(conversation, desk, matches)
    return found or conclude(desk, matches, restricted(conversation))


def without_documents(conversation: Conversation) -> str:
    """The answer if no document is open."""
    if not has_searched(conversation):
        return wording.INTRODUCTION
    return restricted(conversation) or wording.NOTHING_FOUND


def lay_out(question: Question, documents: Sequence[Document]) -> Desk:
    """Opens the documents that the question is about: all of them, or the one it names by its place."""
    texts = [document for document in documents if document.contents is not None]
    files = {document.file_id for document in texts if document.file_id}
    titles = {document.title for document in texts if document.title}
    listed = {
        document.file_id: document
        for document in documents
        if document.contents is None
        and document.file_id
        and not (document.file_id in files or document.title in titles)
    }
    opened, closed = texts, list(listed.values())
    if question.ordinal is not None and any(d.number == question.ordinal for d in (*opened, *closed)):
        opened = [document for document in opened if document.number == question.ordinal]
        closed = [document for document in closed if document.number == question.ordinal]
    return Desk(question, tuple(opened), tuple(closed), tuple(candidates(opened)))


def read_on(conversation: Conversation, desk: Desk, matches: Sequence[Match]) -> Reply | None:
    """A call of read_file, if the tool is offered and the open documents do not answer. At most three in a turn."""
    reads = conversation.reads
    if "read_file" not in conversation.tools or len(reads) >= MOST_READS:
        return None
    best = matches[0].coverage if matches else 0.0
    called = {read.arguments.get("file_id") for read in reads}
    unread = [document for document in desk.listed if document.file_id not in called]
    if not reads:
        chosen = first_to_read(desk, unread, best)
        return call(chosen, None, desk.question) if chosen is not None else None
    if best >= ENOUGH or (desk.question.wish == "summary" and desk.pool):
        return None
    latest = conversation.read_now()[-1:]
    if latest and latest[0].next_offset is not None:
        file_id = str(reads[-1].arguments.get("file_id", ""))
        return call(replace(latest[0], file_id=file_id), latest[0].next_offset, desk.question)
    return call(unread[-1], None, desk.question) if unread else None


def first_to_read(desk: Desk, unread: Sequence[Document], best: float) -> Document | None:
    """The listed document whose name the question uses; else the newest, when nothing open answers well."""
    if not unread:
        return None
    named = [document for document in unread if named_in(desk.question, document)]
    if named:
        return named[-1]
    open_is_enough = bool(desk.open) if desk.question.wish == "summary" else best >= GOOD
    return None if open_is_enough else unread[-1]


def named_in(question: Question, document: Document) -> bool:
    title = set(words(document.title.replace("_", " ").rsplit(".", 1)[0]))
    return bool(title & question.query.stems)


def call(document: Document, offset: int | None, question: Question) -> Reply:
    arguments: dict[str, object] = {"file_id": document.file_id}
    if offset is not None:
        arguments["offset"] = offset
    elif question.wish == "answer":
        arguments["query"] = question.text
    narration = wording.reading(document, further=offset is not None)
    return Reply(
        text=narration,
        reasoning=f"The text of {document.name} is not in this conversation yet.",
        tool_calls=(ToolCall("read_file", arguments=arguments),),
    )


def conclude(desk: Desk, matches: Sequence[Match], beside: str = "") -> Reply:
    """The final answer of a turn, with a short note of the search as its reasoning; `beside` is said after it."""
    question = desk.question
    shown = list(dict.fromkeys(word for _, word in terms(question.text)))[:8]
    reasoning = wording.thought(len(desk.open), len(desk.pool), shown if question.wish == "answer" else ())
    if not desk.open:
        text = wording.not_found((), desk.listed)
    elif not desk.pool:
        text = wording.empty(desk.open)
    elif question.wish == "summary" or not question.query.weights:
        text = summarise(desk)
    else:
        text = quote_best(desk, matches)
    return Reply(text=f"{text}\n\n{beside}" if beside else text, reasoning=reasoning)


def quote_best(desk: Desk, matches: Sequence[Match]) -> str:
    good = [match for match in matches if match.coverage >= ENOUGH]
    if not good:
        return wording.not_found(desk.open, desk.listed)
    sentences = [match for match in good if match.candidate.sentence.kind != "heading"]
    chosen = distinct(sentences or good, MOST_QUOTES, FLOOR)
    quotes, sources = quoted([match.candidate for match in chosen])
    return wording.answered(quotes, sources, whole=good[0].coverage >= GOOD)


def summarise(desk: Desk) -> str:
    """Of the documents the question names, else of those that came last."""
    named = [document for document in desk.open if named_in(desk.question, document)]
    newest = max(document.group for document in desk.open)
    targets = named or [document for document in desk.open if document.group == newest]
    each = max(1, MOST_QUOTES // len(targets))
    chosen: list[Candidate] = []
    for document in targets[:MOST_QUOTES]:
        chosen += central([candidate for candidate in desk.pool if candidate.document is document], each)
    if not chosen:
        return wording.empty(targets)
    return wording.summarised(*quoted(chosen))


def quoted(chosen: Sequence[Candidate]) -> tuple[list[str], list[Document]]:
    quotes = [wording.quote(candidate.sentence.text, candidate.document.number) for candidate in chosen]
    sources = {candidate.document.number: candidate.document for candidate in chosen}
    return quotes, list(sources.values())


def summarise_conversation(conversation: Conversation) -> Reply:
    """The central sentences of what was said, as a document of its own would be."""
    said = [
        piece.text
        for piece in conversation.pieces
        if isinstance(piece, PastMessage) and piece.role in ("user", "assistant")
    ]
    talk = Document(0, "this conversation", "", "\n\n".join(said[:-1]), None, 0)
    chosen = central(candidates([talk]), MOST_QUOTES)
    if not chosen:
        return Reply(text=wording.INTRODUCTION)
    return Reply(text=wording.conversation_summarised([f"“{candidate.sentence.text}”" for candidate in chosen]))


def title_of(conversation: Conversation) -> str:
    """The first words of the first question."""
    first = conversation.questions[0] if conversation.questions else "Conversation"
    return " ".join(first.split()[:TITLE_WORDS]).rstrip(".,;:!?")


TOOL = "knowledge_base_search"
ANNOUNCED = "Knowledge bases that can be searched here:"


def search(conversation: Conversation, question: Question) -> Reply | None:
    """A call of the search, if the tool is offered and bases are announced. Once in a turn."""
    if TOOL not in conversation.tools or question.wish != "answer" or has_searched(conversation):
        return None
    if not any(isinstance(piece, PastMessage) and ANNOUNCED in piece.text for piece in conversation.pieces):
        return None
    return Reply(
        text=wording.SEARCHING,
        reasoning="Nothing that is open answers this; there are knowledge bases to search.",
        tool_calls=(ToolCall(TOOL, arguments={"query": question.text}),),
    )


def has_searched(conversation: Conversation) -> bool:
    """Whether this turn has searched."""
    return any(isinstance(piece, Called) and piece.name == TOOL for piece in conversation.turn)


def restricted(conversation: Conversation) -> str:
    """The safe answers about restricted bases that this turn's searches returned. "" if there are none."""
    told = []
    for part in _parts(conversation):
        name = str(part.get("knowledge_base", ""))
        said = part.get("summary") if part.get("decision") == "answer" else part.get("what_to_do")
        told.append(wording.restricted(name, str(said or "")))
    return "\n\n".join(told)


def _parts(conversation: Conversation) -> Iterator[dict[str, object]]:
    for piece in conversation.turn:
        if not isinstance(piece, PastMessage) or piece.role != "tool" or '"restricted"' not in piece.text:
            continue
        try:
            value = json.loads(piece.text)
        except ValueError:
            continue
        listed = value.get("restricted") if isinstance(value, dict) else None
        yield from (part for part in listed if isinstance(part, dict)) if isinstance(listed, list) else ()


DEALS_WITH_IT = "The documents deal with this question. For what they say, ask the people who keep them."


def safe_summary(conversation: Conversation) -> Reply | None:
    """The reply to a question about untrusted passages, in the form that was asked for; None for any other request."""
    asked = next((made for piece in reversed(conversation.pieces) if (made := _summary_asked(piece)) is not None), None)
    if asked is None:
        return None
    wanted = set(words(asked["question"]))
    fits = any(wanted & set(words(str(passage.get("text", "")))) for passage in asked["passages"])
    if isinstance(fields := asked.get("fields"), list) and fields:
        # The first choice is "no", or the like; the second says that there is something.
        return Reply(text=json.dumps({"choices": [int(fits)] * len(fields), "confidence": 0.8}))
    said = {
        "decision": "answer" if fits else "refuse",
        "reason": "answered" if fits else "not_in_documents",
        "summary": DEALS_WITH_IT if fits else "",
        "confidence": 0.8,
    }
    return Reply(text=json.dumps(said))


def _summary_asked(piece: object) -> dict[str, Any] | None:
    if not isinstance(piece, PastMessage) or piece.role != "user" or '"passages_are":' not in piece.text:
        return None
    try:
        made = json.loads(piece.text)
    except ValueError:
        return None
    known = isinstance(made, dict) and isinstance(made.get("question"), str) and isinstance(made.get("passages"), list)
    return made if known and all(isinstance(one, dict) for one in made["passages"]) else None
