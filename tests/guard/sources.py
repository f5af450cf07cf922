"""Protected text in seven languages, and what may be said of it."""

from __future__ import annotations

from lamella.guard.masking import Masked, mask
from lamella.guard.release import Release, Shown, release, title_stems
from lamella.guard.terms import NameEvidence, ProtectedTerms, evidence_of, terms_of
from lamella.knowledge.restricted.wordlists import lexicon

LEASE = """# Lease of the northern mill

The tenant pays a yearly rent of 1,234,500 euros on the first day of May and keeps the roof in good repair until the
lease ends on 31 May 2027; pets are allowed in the yard, except for geese. Contract KX-4471-B of Mr Stone is filed by
m.huber@mill.example. Twenty-five looms and 12.4 % of the shares belong to Project Falcon. Falcon starts in autumn, and
the board follows Falcon closely. Ms Zervanolis of Quorvex signed it."""

TITLE = "rent_agreement_augsburg.pdf"

HARMLESS = [
    "The documents deal with what a tenant owes. For the sum, ask the owner of the base.",
    "Nothing in them answers the question directly.",
    "Repairs are a duty of the person who rents the building.",
    "There are rules about animals, and the agreement ends at a fixed date.",
]


def terms(text: str, code: str = "en", titles: tuple[str, ...] = ()) -> ProtectedTerms:
    """The names of a base with this one document."""
    evidence = NameEvidence()
    evidence.add(evidence_of(text, lexicon(code), titles))
    return terms_of(evidence, lexicon(code))


def masked(text: str, code: str = "en") -> Masked:
    """A document of a base of its own, masked."""
    return mask(text, lexicon(code), terms(text, code))


def released(said: str, text: str = LEASE, code: str = "en", titles: tuple[str, ...] = (TITLE,)) -> Release:
    """What may leave of an answer about a document."""
    words = lexicon(code)
    shown = Shown([masked(text, code)], [title_stems(title, words) for title in titles])
    return release(said, words, terms(text, code, titles), shown)
