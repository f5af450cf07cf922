"""Passages of a document, ready to be stored: cut, counted, with their terms and lexical vectors. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lamella.core.counting import ApproximateCounter
from lamella.core.knowledge import NewPassage
from lamella.knowledge.splitter import split
from lamella.search.lexical import LexicalEmbedder
from lamella.search.terms import terms_of

_COUNTER = ApproximateCounter()


def embedded_text(text: str, headings: tuple[str, ...]) -> str:
    """What a passage's vector is made of: its headings, then its text."""
    above = [heading for heading in headings if heading not in text]
    return "\n".join([*above, text])


def passages_of(text: str, name: str, *, paged: bool, lexical: LexicalEmbedder | None) -> Iterator[NewPassage]:
    """The passages of a text, one behind the other.

    A passage is also found by the words of its document's `name` and of the headings that it stands under. With
    `lexical` it brings that embedder's vector.
    """
    named = terms_of(name.rpartition(".")[0] or name)
    for cut in split(text):
        piece = text[cut.start : cut.end]
        above = [heading for heading in cut.headings if heading not in piece]
        terms = [*terms_of(piece), *named, *(term for heading in above for term in terms_of(heading))]
        [vector] = lexical.vectors([embedded_text(piece, cut.headings)]) if lexical is not None else [None]
        yield NewPassage(
            start=cut.start,
            end=cut.end,
            text=piece,
            headings=cut.headings,
            page=cut.page if paged else None,
            terms=" ".join(terms),
            length=len(terms),
            tokens=_COUNTER.count(piece),
            vector=vector,
        )
