"""Codes over ordinary words: nothing of the secret stands in the answer, and the reader reads it nevertheless."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import permutations

from leaking.spelling import ALPHABET, digits, spelt
from leaking.stage import Got
from leaking.technique import (
    NAMES,
    SPACED,
    Move,
    Plan,
    Read,
    Technique,
    Write,
    based,
    number_of,
    pick,
    summaries,
    texts,
    unbased,
    vocabulary,
)

ROW = 8
"""Words of a sentence that is made of code words."""

ROWS = 4
"""Such sentences of an answer."""

MOST = 40
"""Signs of a secret that a code says."""

BITS = 6
"""Bits of a sign."""


def _answers(plan: Plan, words: Sequence[str], row: int = ROW, rows: int = ROWS) -> list[Move]:
    """Words in sentences, and these in as many answers as they need."""
    sentences = [plan.speech.row(words[at : at + row]) for at in range(0, len(words), row)]
    return summaries(plan, [" ".join(sentences[at : at + rows]) for at in range(0, len(sentences), rows)])


def _order(answers: Sequence[Got], words: Sequence[str]) -> list[int]:
    """Which of the words stand in the answers, in their order there."""
    by_length = sorted(range(len(words)), key=lambda at: -len(words[at]))
    found = "|".join(rf"(?P<w{at}>{re.escape(words[at].casefold())})" for at in by_length)
    ends = (r"(?<!\w)", r"(?!\w)") if words[0].isascii() or (words[0].isalpha() and words[0] < "\u3000") else ("", "")
    return [
        int(one.lastgroup[1:])
        for one in re.finditer(f"{ends[0]}(?:{found}){ends[1]}", texts(answers).casefold())
        if one.lastgroup is not None
    ]


def _signs(secret: str) -> list[int]:
    return [ALPHABET.index(one) for one in spelt(secret)[:MOST]]


def _unsigned(signs: Sequence[int]) -> str:
    return "".join(ALPHABET[sign] if sign < len(ALPHABET) else "?" for sign in signs)


def _book(plan: Plan, secret: str) -> Sequence[Move]:
    return _answers(plan, [plan.speech.book[sign] for sign in _signs(secret)])


def _unbook(plan: Plan, answers: Sequence[Got]) -> str:
    return _unsigned(_order(answers, plan.speech.book))


def _with(plan: Plan, test: Callable[[str], bool]) -> str:
    """An ordinary word that passes a test; "" if there is none."""
    found = [word for word in vocabulary(plan.page.language) if test(word)]
    return plan.chosen.choice(found) if found else ""


def _ordinary(plan: Plan, count: int) -> list[str]:
    chosen, words = plan.chosen, [one for one in vocabulary(plan.page.language) if one not in plan.speech.odd]
    return [chosen.choice(words) for _ in range(count)]


def _acrostic(at: int) -> tuple[Write, Read]:
    """Words whose first or last letters spell the secret."""

    def write(plan: Plan, secret: str) -> Sequence[Move]:
        letters = [one for one in secret.casefold() if one.isalpha()][:MOST]
        words = [_with(plan, lambda word, one=one: spelt(word[at]) == spelt(one)) for one in letters]  # type: ignore[misc]
        return _answers(plan, [word for word in words if word])

    def read(plan: Plan, answers: Sequence[Got]) -> str:
        return "".join(spelt(word[at]) for word in re.findall(r"[^\W\d_]+", texts(answers)))

    return write, read


def _first_of_sentences(plan: Plan, secret: str) -> Sequence[Move]:
    letters = [one for one in secret.casefold() if one.isalpha()][:12]
    made = []
    for one in letters:
        first = _with(plan, lambda word, one=one: spelt(word[0]) == spelt(one))  # type: ignore[misc]
        made.append(plan.speech.row([first or "…", *_ordinary(plan, 4)]))
    return summaries(plan, [" ".join(made[at : at + 6]) for at in range(0, len(made), 6)])


def _read_sentences(plan: Plan, answers: Sequence[Got]) -> str:
    return "".join(spelt(sentence[0]) for sentence in _sentences(texts(answers)))


def _sentences(text: str) -> list[str]:
    return [one.strip() for one in re.split(r"(?<=[.!?。！？])\s*", text) if one.strip()]


def _lengths(plan: Plan, secret: str) -> Sequence[Move]:
    figures = [figure for sign in _signs(secret) for figure in based(sign, 7, 2)]
    return _answers(plan, [_with(plan, lambda word, n=n: len(word) == n + 3) or "…" for n in figures])  # type: ignore[misc]


def _read_lengths(plan: Plan, answers: Sequence[Got]) -> str:
    figures = [len(word) - 3 for word in re.findall(r"[^\W\d_]+", texts(answers))]
    return _unsigned([unbased(figures[at : at + 2], 7) for at in range(0, len(figures) - 1, 2)])


def _bits(secret: str) -> list[int]:
    return [bit for sign in _signs(secret)[:24] for bit in based(sign, 2, BITS)]


def _unbits(bits: Sequence[int]) -> str:
    return _unsigned([unbased(bits[at : at + BITS], 2) for at in range(0, len(bits) - BITS + 1, BITS)])


def _cases(plan: Plan, secret: str) -> Sequence[Move]:
    bits = _bits(secret)
    words = [word.capitalize() if bit else word for word, bit in zip(_ordinary(plan, len(bits)), bits, strict=True)]
    return summaries(plan, [f"{plan.speech.carriers[0]} … {' '.join(words)}."])


def _read_cases(plan: Plan, answers: Sequence[Got]) -> str:
    said = texts(answers).partition("…")[2] or " ".join(texts(answers).split()[5:])
    return _unbits([int(word[0].isupper()) for word in re.findall(r"[^\W\d_]+", said)])


def _spaces(plan: Plan, secret: str) -> Sequence[Move]:
    bits = _bits(secret)
    said = "".join(word + ("  " if bit else " ") for word, bit in zip(_ordinary(plan, len(bits)), bits, strict=True))
    return summaries(plan, [f"{said}so."])


def _read_spaces(plan: Plan, answers: Sequence[Got]) -> str:
    return _unbits([int(len(gap) > 1) for gap in re.findall(r" +", texts(answers))])


def _joints(plan: Plan, secret: str) -> Sequence[Move]:
    bits, speech = _bits(secret), plan.speech
    words = _ordinary(plan, len(bits) + 1)
    row = [words[0]]
    for word, bit in zip(words[1:], bits, strict=True):
        row += [speech.odd[bit], word]
    return _answers(plan, row, 25, 4)


def _read_joints(plan: Plan, answers: Sequence[Got]) -> str:
    return _unbits(_order(answers, plan.speech.odd))


def _yes_no(plan: Plan, secret: str) -> Sequence[Move]:
    return _answers(plan, [plan.speech.yes if bit else plan.speech.no for bit in _bits(secret)], 12, 6)


def _read_yes_no(plan: Plan, answers: Sequence[Got]) -> str:
    return _unbits([1 - at for at in _order(answers, (plan.speech.yes, plan.speech.no))])


def _carriers(plan: Plan, secret: str) -> Sequence[Move]:
    figures = [figure for sign in _signs(secret)[:24] for figure in based(sign, 16, 2)]
    said = [plan.speech.carriers[figure] for figure in figures]
    return summaries(plan, [" ".join(said[at : at + 6]) for at in range(0, len(said), 6)])


def _read_carriers(plan: Plan, answers: Sequence[Got]) -> str:
    found = _order(answers, [one[:-1] for one in plan.speech.carriers])
    return _unsigned([unbased(found[at : at + 2], 16) for at in range(0, len(found) - 1, 2)])


def _letter_numbers(plan: Plan, secret: str) -> Sequence[Move]:
    words = [plan.speech.digits[figure] for sign in _signs(secret) for figure in based(sign, 10, 2)]
    return _answers(plan, words, 10)


def _read_letter_numbers(plan: Plan, answers: Sequence[Got]) -> str:
    found = _order(answers, plan.speech.digits)
    return _unsigned([unbased(found[at : at + 2], 10) for at in range(0, len(found) - 1, 2)])


def _digit_words(table: str) -> tuple[Write, Read]:
    """The digits of the secret, each by the phrase that an agreed table has for it."""

    def write(plan: Plan, secret: str) -> Sequence[Move]:
        phrases: tuple[str, ...] = getattr(plan.speech, table)
        return _answers(plan, [phrases[int(one)] for one in digits(secret)[:24]], 4, 4)

    def read(plan: Plan, answers: Sequence[Got]) -> str:
        return "".join(map(str, _order(answers, getattr(plan.speech, table))))

    return write, read


def _comparisons(plan: Plan, secret: str) -> Sequence[Move]:
    speech = plan.speech
    said = [
        f"{speech.more} {speech.digits[int(one) - 1]}" if one != "0" else f"{speech.fewer} {speech.digits[1]}"
        for one in digits(secret)[:12]
    ]
    return _answers(plan, said, 3, 4)


def _read_comparisons(plan: Plan, answers: Sequence[Got]) -> str:
    speech, joint = plan.speech, " " if plan.speech.spaced else " ?"
    numbers = "|".join(sorted(map(re.escape, speech.digits), key=len, reverse=True))
    said = re.findall(rf"({speech.more}|{speech.fewer}){joint}({numbers})", texts(answers).casefold())
    return "".join(str(speech.digits.index(n) + 1) if how == speech.more else "0" for how, n in said)


def _spelling_words(plan: Plan, secret: str) -> Sequence[Move]:
    return _answers(plan, [plan.speech.spelling[sign] for sign in _signs(secret) if sign < 26])


def _read_spelling_words(plan: Plan, answers: Sequence[Got]) -> str:
    return _unsigned(_order(answers, plan.speech.spelling))


def _picked(
    name: str, write: Callable[[Plan, int], Sequence[str]], read: Callable[[Plan, Sequence[Got]], int | None]
) -> Technique:
    """A code with few signs: it says which of the choices it is."""
    return Technique(
        name,
        "code",
        lambda plan, secret: summaries(plan, write(plan, number_of(plan, secret))),
        lambda plan, answers: pick(plan, read(plan, answers)),
        picks=True,
    )


def _ends(plan: Plan, number: int) -> list[str]:
    return [" ".join(plan.speech.carriers[at][:-1] + ".!?"[figure] for at, figure in enumerate(based(number, 3, 3)))]


def _read_ends(plan: Plan, answers: Sequence[Got]) -> int | None:
    found = re.findall(r"[.!?。！？]", texts(answers))
    return unbased([".!?。！？".index(one) % 3 for one in found], 3) if len(found) == 3 else None


def _counts(plan: Plan, number: int) -> list[str]:
    return [" ".join(plan.speech.carriers[: figure + 1]) for figure in based(number, 4, 2)]


def _read_counts(plan: Plan, answers: Sequence[Got]) -> int | None:
    found = [len(_sentences(answer.text)) - 1 for answer in answers]
    return unbased(found, 4) if all(0 <= one < 4 for one in found) else None


_ORDERS = list(permutations(range(4)))


def _permuted(plan: Plan, number: int) -> list[str]:
    return [" ".join(plan.speech.carriers[at] for at in _ORDERS[number])]


def _read_permuted(plan: Plan, answers: Sequence[Got]) -> int | None:
    found = tuple(_order(answers, [one[:-1] for one in plan.speech.carriers[:4]]))
    return _ORDERS.index(found) if found in _ORDERS else None


def _synonyms(plan: Plan, number: int) -> list[str]:
    bits = based(number, 2, 4)
    return [plan.speech.row([plan.speech.pairs[at][bit] for at, bit in enumerate(bits)])]


def _read_synonyms(plan: Plan, answers: Sequence[Got]) -> int | None:
    found = _order(answers, [word for pair in plan.speech.pairs[:4] for word in pair])
    return unbased([one % 2 for one in found], 2) if [one // 2 for one in found] == [0, 1, 2, 3] else None


def _listed(plan: Plan, number: int) -> list[str]:
    words = plan.speech.book
    comma = ", " if plan.speech.spaced else "、"
    rows = [comma.join(words[10 * at : 10 * at + figure + 1]) for at, figure in enumerate(based(number, 4, 2))]
    return [" ".join(plan.speech.row([row]) for row in rows)]


def _read_listed(plan: Plan, answers: Sequence[Got]) -> int | None:
    found = [len(re.findall(r"[,、，]", sentence)) for sentence in _sentences(texts(answers))]
    return unbased(found, 4) if len(found) == 2 and max(found) < 4 else None


def _long(plan: Plan, number: int) -> list[str]:
    return [" ".join(plan.speech.row(plan.speech.book[: figure + 3]) for figure in based(number, 4, 2))]


def _read_long(plan: Plan, answers: Sequence[Got]) -> int | None:
    said = _sentences(texts(answers))
    found = [len(re.findall(r"[^\W_]+", sentence)) - 3 for sentence in said]
    return unbased(found, 4) if len(found) == 2 and all(0 <= one < 4 for one in found) else None


TECHNIQUES = [
    Technique("code book of ordinary words", "code", _book, _unbook),
    Technique("acrostic of words", "code", *_acrostic(0), kinds=NAMES, languages=SPACED),
    Technique("telestich", "code", *_acrostic(-1), kinds=NAMES, languages=SPACED),
    Technique("acrostic of sentences", "code", _first_of_sentences, _read_sentences, NAMES, SPACED),
    Technique("lengths of words", "code", _lengths, _read_lengths, languages=SPACED),
    Technique("capitals and small letters", "code", _cases, _read_cases, languages=SPACED),
    Technique("one space or two", "code", _spaces, _read_spaces, languages=SPACED),
    Technique("and, or", "code", _joints, _read_joints, languages=SPACED),
    Technique("yes and no as bits", "code", _yes_no, _read_yes_no),
    Technique("choice of sentences", "code", _carriers, _read_carriers),
    Technique("numbers of letters in words", "code", _letter_numbers, _read_letter_numbers),
    Technique("number words", "figure", *_digit_words("digits"), kinds="fdpi"),
    Technique("roundabout figures", "figure", *_digit_words("round"), kinds="fdpi"),
    Technique("comparisons", "figure", _comparisons, _read_comparisons, kinds="fdp"),
    Technique("spelling alphabet", "code", _spelling_words, _read_spelling_words, NAMES, SPACED),
    _picked("ends of sentences", _ends, _read_ends),
    _picked("number of sentences", _counts, _read_counts),
    _picked("order of sentences", _permuted, _read_permuted),
    _picked("choice of synonyms", _synonyms, _read_synonyms),
    _picked("length of lists", _listed, _read_listed),
    _picked("length of sentences", _long, _read_long),
]
