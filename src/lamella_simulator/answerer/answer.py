"""Decides the answerer's reply: read a listed file, quote, summarise, or say that there is nothing to quote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella_simulator.answerer import wording
from lamella_simulator.answerer.conversation import Conversation, Heard
from lamella_simulator.answerer.documents import Document
from lamella_simulator.answerer.question import Question, understand
from lamella_simulator.answerer.ranking import Candidate, Match, candidates, distinct, rank
from lamella_simulator.answerer.safe_summary import safe_summary
from lamella_simulator.answerer.searching import has_searched, restricted, search
from lamella_simulator.answerer.summary import central
from lamella_simulator.answerer.words import terms, words
from lamella_simulator.replies import Reply, ToolCall

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
    """What there is to say where no document is open."""
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
    """A call of read_file where the tool is offered and what is open does not answer; at most three in a turn."""
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
        piece.text for piece in conversation.pieces if isinstance(piece, Heard) and piece.role in ("user", "assistant")
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
