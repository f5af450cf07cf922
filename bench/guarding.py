"""CPU of the guard: what its sources cost once, and what each answer costs, as the answer and the sources grow.

python bench/guarding.py
"""

from __future__ import annotations

import random
from collections.abc import Callable
from time import process_time

from lamella.guard.guard import Guard, ProtectedText

PASSAGES, PASSAGE_WORDS, ANSWER_WORDS = 100, 400, 300


def cpu(work: Callable[[], object], rounds: int = 5) -> float:
    """The least CPU seconds of some rounds."""
    spent = []
    for _ in range(rounds):
        began = process_time()
        work()
        spent.append(process_time() - began)
    return min(spent)


def main() -> None:
    chosen = random.Random(1)
    words = ["".join(chosen.choices("abcdefghijklmnop", k=chosen.randint(2, 10))) for _ in range(6_000)]

    def text(count: int) -> str:
        said = [str(chosen.randint(1, 9_999)) if at % 9 == 0 else chosen.choice(words) for at in range(count)]
        return " ".join(word + "." if at % 15 == 14 else word for at, word in enumerate(said))

    for passages in (PASSAGES, 4 * PASSAGES):
        sources = [ProtectedText(text(PASSAGE_WORDS)) for _ in range(passages)]
        guard = Guard(sources, [text(30)])
        made = cpu(lambda sources=sources: Guard(sources), rounds=2)  # type: ignore[misc]
        print(f"{passages} passages of {PASSAGE_WORDS} words: indexed in {made * 1_000:.0f} ms")
        for count in (ANSWER_WORDS, 4 * ANSWER_WORDS):
            answer = text(count)
            spent = cpu(lambda guard=guard, answer=answer: guard.check(answer))  # type: ignore[misc]
            print(f"  an answer of {count} words: {spent * 1_000:.1f} ms")


if __name__ == "__main__":
    main()
