"""Everything the answerer says in its own words; the rest of an answer is quoted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lamella_simulator.answerer.conversation import Document

INTRODUCTION = """\
This is Lamella's **offline demonstration**. I am not an AI model: I can only find and quote sentences from documents \
that are uploaded to this conversation.

- **Try it:** attach a PDF, a text file or a table, and ask something that it answers. Every quote names its document.
- **For real answers,** connect a model: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, choose one with \
`LAMELLA_MODEL`, and start Lamella again.
"""
GREETING = """\
Hello! This is Lamella's **offline demonstration**, not an AI model. Upload a document and ask about it: I answer with \
sentences quoted from it. `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` (with `LAMELLA_MODEL`) connects a real model."""
GREETING_WITH_DOCUMENTS = """\
Hello! This is Lamella's **offline demonstration**, not an AI model. Ask me about {names}: I answer with sentences \
quoted from there."""
THANKS = "You're welcome. Ask about another part whenever you like: I quote what the documents say about it."
SEARCHING = "Let me search the knowledge bases."
NOTHING_FOUND = """\
I searched the knowledge bases and found no sentence that shares enough words with your question, so I have nothing to \
quote. Different words may help: this demonstration matches words, it does not understand."""
REFERENCE = re.compile(r"\[(?=\d+(?:\s*[,–-]\s*\d+)*\])")
LONGEST_QUOTE = 600
NAMES_SHOWN = 5


def quote(text: str, number: int) -> str:
    """A sentence as a quotation with its document's number; its own bracketed numbers must not look like that."""
    if len(text) > LONGEST_QUOTE:
        text = text[:LONGEST_QUOTE].rsplit(" ", 1)[0] + " …"
    return f"“{REFERENCE.sub(ESCAPED_BRACKET, text)}” [{number}]"


ESCAPED_BRACKET = r"\\["


def names(documents: Sequence[Document]) -> str:
    """**A**, **B** and 3 more."""
    shown = [f"**{document.name}**" for document in documents[:NAMES_SHOWN]]
    if len(documents) > NAMES_SHOWN:
        shown.append(f"{len(documents) - NAMES_SHOWN} more")
    if len(shown) < 2:
        return "".join(shown) or "no document"
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def answered(quotes: Sequence[str], sources: Sequence[Document], *, whole: bool) -> str:
    """`whole`: the quotes carry most of the question's words; otherwise the answer says that they do not."""
    if whole:
        return f"In {names(sources)}:\n\n{bullets(quotes)}"
    return f"No sentence has all the words of your question. The closest, in {names(sources)}:\n\n{bullets(quotes)}"


def summarised(quotes: Sequence[str], sources: Sequence[Document]) -> str:
    return f"The sentences that say most about {names(sources)}, as written there:\n\n{bullets(quotes)}"


def conversation_summarised(quotes: Sequence[str]) -> str:
    return f"The most central sentences of this conversation, as written:\n\n{bullets(quotes)}"


def bullets(lines: Sequence[str]) -> str:
    return lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)


def not_found(looked: Sequence[Document], listed: Sequence[Document]) -> str:
    """No overlap: says so, and names what was looked at and what could not be."""
    if not looked:
        return f"I could not read {names(listed)}: only the name is in this conversation, not the text."
    text = (
        f"I looked through {names(looked)} and found no sentence that shares enough words with your question, so I "
        "have nothing to quote. Different words may help: this demonstration matches words, it does not understand."
    )
    if listed:
        text += f"\n\nI did not read {names(listed)}."
    return text


def empty(looked: Sequence[Document]) -> str:
    return f"There is no text in {names(looked)} that I could quote."


def restricted(name: str, said: str) -> str:
    """What a base with restricted access lets out, in the words that its reader was given."""
    return f"**{name}** may only be used in part: {said}"


def reading(document: Document, *, further: bool) -> str:
    if further:
        return f"Not found so far; I'll read on in **{document.name}**."
    return f"Let me read **{document.name}**."


def thought(documents: int, sentences: int, sought: Sequence[str]) -> str:
    text = f"Looking through {counted(documents, 'document')}, {counted(sentences, 'sentence')}"
    return f"{text}, for: {', '.join(sought)}." if sought else f"{text}."


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
