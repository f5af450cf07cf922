"""CPU of the guard: what a passage costs to mask, and what an answer costs to release, in each language.

python bench/guarding.py

Texts are those of bench/leaking/honest: passages of real kinds, and the answers of a careful second model, repeated to
4,000 characters.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import process_time

from lamella.guard.language import CODES
from lamella.guard.masking import mask
from lamella.guard.release import Shown, release
from lamella.guard.terms import NameEvidence, evidence_of, terms_of
from lamella.knowledge.restricted.wordlists import lexicon
from tables import arguments, show

HONEST = Path(__file__).parent / "leaking" / "honest"
CHARACTERS = 4_000
BASES = (1, 40)
"""How many times over the documents stand in the base: the answer should cost the same."""


def cpu(work: Callable[[], object], rounds: int = 5) -> float:
    """The least CPU seconds of some rounds."""
    spent = []
    for _ in range(rounds):
        began = process_time()
        work()
        spent.append(process_time() - began)
    return min(spent)


def main() -> None:
    arguments(__doc__).parse_args()
    rows = [("language", "word list", "mask", *(f"release, base x{times}" for times in BASES))]
    for code in CODES:
        read = cpu(lambda code=code: lexicon(code), rounds=1)  # type: ignore[misc]
        rows.append((code, f"{read:.2f} s", *_row(code)))
    show(rows)


def _row(code: str) -> tuple[str, ...]:
    words = lexicon(code)
    documents = json.loads((HONEST / f"{code}.json").read_text("utf-8"))
    texts = [passage for document in documents for passage in document["passages"]]
    said = " ".join(answer["summary"] for document in documents for answer in document["answers"])[:CHARACTERS]
    passage = " ".join(texts)[:CHARACTERS]
    cells: list[str] = []
    for times in BASES:
        evidence = NameEvidence()
        for text in texts * times:
            evidence.add(evidence_of(text, words))
        terms = terms_of(evidence, words)
        if not cells:
            cells.append(f"{1_000 * cpu(lambda terms=terms: mask(passage, words, terms)):.1f} ms")  # type: ignore[misc]
        shown = Shown([mask(text, words, terms) for text in texts[:8]])
        spent = cpu(lambda terms=terms, shown=shown: release(said, words, terms, shown))  # type: ignore[misc]
        cells.append(f"{1_000 * spent:.1f} ms")
    return tuple(cells)


if __name__ == "__main__":
    main()
