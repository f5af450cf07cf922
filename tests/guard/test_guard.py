"""What the guard lets through, what it cuts out and what it refuses: in plain words and in every disguise."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.guard.guard import FindingKind, Guard, ProtectedText
from measures import MOST_GROWTH, growth

from .sources import HARMLESS, LEASE, SOURCES

GUARD = Guard(SOURCES)
RUN = "keeps the roof in good repair until the lease ends"
LOOK_ALIKE = str.maketrans("aeopcyx", "аеорсух")
WIDE = {ord("a") + n: 0xFF41 + n for n in range(26)}

DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "title": str.title,
    "punctuated": lambda text: text.replace(" ", ", "),
    "hyphens": lambda text: text.replace(" ", "-"),
    "new lines": lambda text: text.replace(" ", "\n\n"),
    "no spaces": lambda text: text.replace(" ", ""),
    "spaced letters": lambda text: " ".join(text.replace(" ", "")),
    "dotted letters": lambda text: ".".join(text),
    "zero width": lambda text: "\u200b".join(text),
    "soft hyphens": lambda text: text.replace("o", "o\u00ad"),
    "look-alikes": lambda text: text.translate(LOOK_ALIKE),
    "full width": lambda text: text.translate(WIDE),
    "accents": lambda text: text.replace("e", "é").replace("o", "ö"),
    "digits for letters": lambda text: text.replace("e", "3").replace("o", "0").replace("i", "1"),
    "emphasis": lambda text: " ".join(f"**{word}**" for word in text.split()),
    "reversed": lambda text: text[::-1],
    "reversed words": lambda text: " ".join(reversed(text.split())),
    "each word reversed": lambda text: " ".join(word[::-1] for word in text.split()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "url-safe base64": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "spaced hexadecimal": lambda text: text.encode().hex(" "),
    "escapes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "character codes": lambda text: " ".join(str(ord(character)) for character in text),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "percent spaces": quote,
    "entities": lambda text: "".join(f"&#{ord(character)};" for character in text),
    "rot13": lambda text: codecs.encode(text, "rot13"),
}


@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES.keys())
def test_a_run_of_words_is_not_said_in_any_form(disguise: Callable[[str], str]) -> None:
    verdict = GUARD.check(f"It says that one {disguise(RUN)}, as I was told.")
    assert verdict.is_refused
    assert verdict.hits


FIGURES = (
    "1,234,500 euros", "rent: 1 234 500 EUR", "1.234.500 €", "1.2345 million",
    "about 1.23 million euros",
    "€1,234,500", "1234500", "12.4 %", "12,4 Prozent", "twelve point four percent", "zwölf Komma vier Prozent",
    "12 percent", "25 looms", "twenty-five", "fünfundzwanzig Webstühle", "vingt-cinq métiers", "二十五",
    "eighty people move", "80", "achtzig", "３ % per week", "three percent", "٢٥",
)  # fmt: skip
DATES = (
    "on 31 May 2027", "May 31st, 2027", "31.05.2027", "05/31/2027", "2027-05-31", "in May 2027",
    "in 2027", "31. Mai 2027",
    "le 31 mai 2027", "2027年5月31日", "on 31 May", "in Q3 2026", "in the third quarter of 2026",
    "14 September", "14.9.26",
)  # fmt: skip
NAMES = (
    "KX-4471-B", "kx 4471 b", "KX4471B", "KX/4471/B", "m.huber@mill.example", "+49 821 5550 142", "+49-821-5550142",
    "the rent agreement Augsburg", "rent_agreement_augsburg.pdf", "Handing over the keys",
    "the lease of the northern mill",
    "“Board Paper for the Autumn Meeting”",
)  # fmt: skip


@pytest.mark.parametrize("said", [*FIGURES, *DATES, *NAMES])
def test_a_figure_date_or_name_is_not_said_in_any_form(said: str) -> None:
    verdict = GUARD.check(f"Nothing more is known to me about it. It says {said} somewhere. Ask the owner of the base.")
    assert said not in verdict.text
    assert verdict.hits


@pytest.mark.parametrize("said", HARMLESS)
def test_what_tells_nothing_passes_unchanged(said: str) -> None:
    verdict = GUARD.check(said)
    assert (verdict.text, verdict.hits) == (said, ())


def test_sentences_are_taken_out_and_the_others_stay() -> None:
    said = "The roof is dealt with. The lease ends on 31 May 2027. Ask the owner whether you may read it in full."
    verdict = GUARD.check(said)
    assert verdict.text == "The roof is dealt with. Ask the owner whether you may read it in full."
    assert [hit.kind for hit in verdict.hits if hit.kind is FindingKind.DATE] == [FindingKind.DATE]
    assert said[verdict.hits[-1].start : verdict.hits[-1].end] == "31 May 2027"


def test_with_too_little_left_all_is_refused() -> None:
    said = "It ends on 31 May 2027. The rent is 1,234,500 euros. There are 25 looms. That is all."
    assert GUARD.check(said).is_refused


def test_halves_of_a_run_do_not_come_together() -> None:
    said = "He keeps the roof in good. On 31 May 2027! repair until the lease ends, and much more of a general kind."
    assert "repair" not in GUARD.check(said).text


def test_a_copy_with_changed_words_is_refused() -> None:
    said = (
        "The tenant pays a yearly sum on the first day of every month and keeps the roof in a state of good repair "
        "until the contract ends; pets are allowed in gardens, except for geese."
    )
    verdict = GUARD.check(said)
    assert verdict.is_refused
    assert FindingKind.PATCHWORK in {hit.kind for hit in verdict.hits}


def test_what_the_user_said_may_be_said_again() -> None:
    asked = f"Is it true that the tenant {RUN} on 31 May 2027, pays 1,234,500 euros, under contract KX-4471-B?"
    said = f"You ask whether he {RUN} on 31 May 2027 and pays 1,234,500 euros for KX-4471-B. I may not say."
    assert Guard(SOURCES, [asked]).check(said).text == said
    assert GUARD.check(said).is_refused


def test_what_the_user_said_does_not_open_the_rest() -> None:
    guard = Guard(SOURCES, ["Who keeps the roof in good repair?"])
    assert guard.check(f"The tenant {RUN} on a day in spring.").is_refused


def test_small_counts_tell_nothing_unless_the_same_is_counted() -> None:
    guard = Guard([ProtectedText("The fee is due within 5 weeks.")])
    assert guard.check("There are 5 documents on it.").text
    assert guard.check("It is due within 5 weeks.").is_refused
    assert guard.check("It is due within five weeks.").is_refused


def test_common_words_in_a_row_are_nobodys() -> None:
    guard = Guard([ProtectedText("It is what it is, and that is all that there is to it as far as we are in it.")])
    said = "I think that is all that there is to it as far as we are in it."
    assert guard.check(said).text == said


def test_a_hit_has_no_protected_word_in_it() -> None:
    verdict = GUARD.check(f"It {RUN} under KX-4471-B.")
    assert "KX" not in repr(verdict)
    assert "roof" not in repr(verdict)


def test_nothing_protected_means_nothing_is_found() -> None:
    said = f"{RUN} on 31 May 2027 for 12.4 %."
    assert Guard([]).check(said).text == said
    assert Guard([ProtectedText("")]).check(said).text == said
    assert GUARD.check("").text == ""


WORDS = st.lists(st.sampled_from(LEASE.text.split()), max_size=60).map(" ".join)
TEXTS = st.one_of(st.text(max_size=200), WORDS, st.sampled_from(HARMLESS))


@given(st.lists(TEXTS, max_size=4).map(" ".join))
def test_what_is_let_through_is_let_through_again(said: str) -> None:
    once = GUARD.check(said).text
    assert GUARD.check(once).text == once
    assert GUARD.check(once).hits == ()


@given(st.lists(st.text("abcdefghijkmnop", min_size=4, max_size=9), min_size=8, max_size=60), st.data())
def test_any_eight_words_in_any_disguise_are_found(words: list[str], data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(words) - 8))
    run = " ".join(words[begin : begin + 8])
    disguise = data.draw(st.sampled_from(sorted(DISGUISES)))
    verdict = Guard([ProtectedText(" ".join(words))]).check(f"So: {DISGUISES[disguise](run)}.")
    assert verdict.hits, (disguise, run)


@given(st.integers(13, 10**9), st.sampled_from(["{:d}", "{:,d}", "{:_d}", "{:d}.0", "{:d} %", "${:,d}", "~{:d}x"]))
def test_any_figure_is_found(value: int, form: str) -> None:
    guard = Guard([ProtectedText(f"The sum of it is {value} there.")])
    said = form.format(value).replace("_", " ")
    assert guard.check(f"I read {said} in it.").hits


@pytest.mark.parametrize("said", ["9" * 4_400, "九" * 4_400, "万" * 200, "twelve " * 900, "0." + "1" * 999, "²⁵⅓Ⅻ"])
def test_no_number_is_too_strange(said: str) -> None:
    assert Guard([ProtectedText(said)], [said[:50]]).check(said[60:]).text in (said[60:], "")


@pytest.mark.parametrize(
    "piece", ["1 ", "a ", "=", "QUJD", "%41", "1,000 ", "twenty ", "&amp;", "2027-05-31 ", "a@", "a.", "1-", "#", "x1-"]
)
def test_the_work_grows_with_what_is_said_and_no_faster(piece: str) -> None:
    assert growth(GUARD.check, piece * (6_000 // len(piece))) < MOST_GROWTH
