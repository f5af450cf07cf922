"""What may leave of an answer about protected text: sentences of ordinary words that tell no passage."""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lamella
from lamella.guard.lexicon import language_of
from lamella.knowledge.restricted.wordlists import lexicons
from measures import MOST_GROWTH, growth

from .sources import HARMLESS, LEASE, released

RUN = "keeps the roof in good repair until the lease ends"
LOOK_ALIKE = str.maketrans("aeopcyx", "аеорсух")
WIDE = {ord("a") + n: 0xFF41 + n for n in range(26)}

DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "title": str.title,
    "punctuated": lambda text: text.replace(" ", ", "),
    "hyphens": lambda text: text.replace(" ", "-"),
    "no spaces": lambda text: text.replace(" ", ""),
    "spaced letters": lambda text: " ".join(text.replace(" ", "")),
    "dotted letters": lambda text: ".".join(text),
    "zero width": lambda text: "\u200b".join(text),
    "soft hyphens": lambda text: text.replace("o", "o\u00ad"),
    "tags": lambda text: "".join(chr(0xE0000 + ord(c)) for c in text),
    "look-alikes": lambda text: text.translate(LOOK_ALIKE),
    "full width": lambda text: text.translate(WIDE),
    "accents": lambda text: text.replace("e", "é").replace("o", "ö"),
    "digits for letters": lambda text: text.replace("e", "3").replace("o", "0").replace("i", "1"),
    "emphasis": lambda text: " ".join(f"**{word}**" for word in text.split()),
    "reversed": lambda text: text[::-1],
    "each word reversed": lambda text: " ".join(word[::-1] for word in text.split()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "spaced hexadecimal": lambda text: text.encode().hex(" "),
    "character codes": lambda text: " ".join(str(ord(character)) for character in text),
    "percent": quote,
    "entities": lambda text: "".join(f"&#{ord(character)};" for character in text),
    "rot13": lambda text: codecs.encode(text, "rot13"),
}


@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES.keys())
def test_a_run_of_words_is_not_said_in_any_form(disguise: Callable[[str], str]) -> None:
    made = released(f"It says that one {disguise(RUN)}, as I was told.")
    assert not made.released, made.released


FIGURES = (
    "1,234,500 euros", "1.2345 million", "about 1.23 million euros", "twelve point four percent", "twenty-five", "80",
    "eighty people move", "three percent", "٢٥", "３ % per week", "XXV", "half of it", "a dozen", "on 31 May 2027",
    "in May",
    "May 31st", "2027-05-31", "in Q3", "on Monday", "one percent", "a million", "twice", "the second",
)  # fmt: skip
NAMES = (
    "KX-4471-B", "KX4471B", "m.huber@mill.example", "Falcon", "falcon", "FALCON", "Zervanolis", "zervanolis", "Quorvex",
    "project falcon", "the rent agreement Augsburg", "the northern mill's lease",
)  # fmt: skip


@pytest.mark.parametrize("said", [*FIGURES, *NAMES])
def test_a_figure_date_or_name_is_not_said_in_any_form(said: str) -> None:
    made = released(
        f"Nothing more is known about it. It says {said} somewhere. Ask the owner.",
        titles=("rent agreement", "northern mill lease"),
    )
    assert made.released.text == "Nothing more is known about it. Ask the owner."
    [cut] = [one for one in made.sentences if one.cuts]
    assert said.split()[0].lower() in cut.said.lower()


@pytest.mark.parametrize("said", HARMLESS)
def test_what_tells_nothing_passes_unchanged(said: str) -> None:
    made = released(said)
    assert (made.released.text, made.cuts) == (said, ())


ORDINARY = {
    "en": "One may ask the owner. It is a good idea to wait, and someone will often help.",
    "de": "Eine Person hilft einfach. Der Vertrag ist eindeutig, und man sollte ihn beachten.",
    "fr": "Une réponse récente se trouve au centre. L'accord est décent.",
    "es": "Una respuesta reciente ayuda. La ciencia es útil.",
    "ru": "Это просто и часто место для сотрудника.",
    "zh": "一般来说，我们一起处理这些问题。",
    "ja": "一般的に、一緒に問題を解決します。",
}


@pytest.mark.parametrize(("code", "said"), ORDINARY.items())
def test_words_that_only_look_like_numbers_may_be_said(code: str, said: str) -> None:
    assert released(said, "", code).cuts == ()


def test_the_sentences_are_composed_in_the_case_of_the_list() -> None:
    made = released("THE TENANT pays - as “agreed” - by vpn (or API);  ask Them!!  he said …")
    assert made.released.text == "The tenant pays as agreed by VPN or API; ask them! He said."


def test_german_is_written_with_its_capitals() -> None:
    said = "DER VERTRAG REGELT DIE HAFTUNG DES LIEFERANTEN, UND MAN KANN IHN KÜNDIGEN."
    assert (
        released(said, "", "de").released.text
        == "Der Vertrag regelt die Haftung des Lieferanten, und man kann ihn kündigen."
    )
    said = "Beide seiten müssen der sicht zustimmen, den anbieter zu wechseln."
    assert (
        released(said, "", "de").released.text == "Beide Seiten müssen der Sicht zustimmen, den Anbieter zu wechseln."
    )


def test_a_compound_may_be_said_unless_it_stands_in_the_passages() -> None:
    said = "Der Liefervertragsentwurf wird geprüft."
    assert released(said, "", "de").released.text == said
    assert not released(said, "Der Liefervertragsentwurf liegt vor.", "de").released


def test_a_compound_with_a_name_of_the_base_is_not_said() -> None:
    assert released("Es gibt eine Sommerfrage.", "Herr Sommer kommt mit Herrn Sommer.", "de").cuts == ("name",)


def test_words_in_latin_letters_are_not_said_in_other_scripts_but_for_known_ones() -> None:
    assert released("使用VPN连接。", "", "zh").released.text == "使用VPN连接。"
    assert not released("负责人是huanghe。", "", "zh").released
    assert not released("Это Voronov.", "", "ru").released


def test_five_words_in_order_are_a_copy_with_fillers_too() -> None:
    assert released("The tenant always pays a yearly and fair rent, keeps the whole roof in good repair.").cuts == (
        "run",
    )


def test_most_of_a_short_sentence_in_any_order_is_a_copy() -> None:
    text = "The supplier may terminate the agreement immediately after repeated delays."
    assert released("After delays that are repeated, the agreement may be terminated by the supplier.", text).cuts == (
        "run",
    )
    assert released("The supplier has a right to end the agreement.", text).cuts == ()


def test_slices_of_one_sentence_are_counted_together() -> None:
    text = "The harbour committee rejected the proposal because customers complained about noise and dust in summer."
    said = "The committee rejected it. The proposal met customers. They complained of noise. There was dust in summer."
    kept = released(said, text)
    assert kept.released
    assert "covered" in kept.cuts


@pytest.mark.parametrize(
    ("code", "text", "said"),
    [
        ("en", "The union's representative, Ms Grace Harbour, was present.", "Grace harbour."),
        ("zh", "会计白雪已经核对账目。", "文件谈到了白雪。"),
        ("ja", "林冬樹が図面を確認した。", "資料は林冬樹の件を扱っています。"),
    ],
)
def test_a_name_of_several_ordinary_words_is_not_said(code: str, text: str, said: str) -> None:
    made = released(said, text, code, titles=())
    assert not made.released, made


def test_a_chinese_word_of_two_frequent_characters_may_be_said_unless_it_stands_in_the_passages() -> None:
    said = "价格较低。"
    assert released(said, "合同没有规定价格。", "zh", titles=()).released.text == said
    assert not released(said, "费用较低的方案已经通过。", "zh", titles=()).released


def test_a_chinese_title_of_frequent_words_is_not_said() -> None:
    assert not released("病房记录。", "患者入院。", "zh", titles=("病房记录.md",)).released


def test_initials_halves_and_last_letters_make_no_hidden_word() -> None:
    hidden = "Ms Zorvan signed."
    for said in (
        "Zebras often remain very angry nowadays.",
        "Zoos open. Others close. Rooms vary. Very few stay. All of them wait. Nobody knows.",
    ):
        assert not released(said, hidden).released
    assert not released("It is a snow fall in the morning.", "Ms Snowfallen met Snowfall at noon.").released


def test_words_of_a_spelling_alphabet_are_not_said_in_a_row() -> None:
    assert not released("It begins with foxtrot, alpha, lima and charlie.").released


def test_a_list_of_guesses_is_refused_as_a_whole() -> None:
    guesses = "It is not an eagle. It is a falcon. It may be the falcon. Perhaps a falcon. It is not a hawk."
    made = released(guesses)
    assert not made.released
    assert "disguised" in made.cuts


def test_names_are_not_named_to_who_rewrites() -> None:
    made = released("It is a falcon. It costs twelve. A zorvlumpt is meant.")
    assert [one.blocked for one in made.rewritable] == [("twelve",), ("zorvlumpt",)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Der Vertrag ist nicht lang.", "de"), ("Le contrat est très court.", "fr"),
        ("El contrato es muy corto.", "es"),
        ("Это очень короткий договор.", "ru"), ("这份合同很短。", "zh"), ("この契約は短いです。", "ja"),
        ("It is a very short contract.", "en"), ("Sopimus on hyvin lyhyt ja selkeä.", ""),
        ("Umowa jest bardzo krótka i jasna.", ""), ("Договір дуже короткий і зрозумілий.", ""),
        ("العقد قصير جدا وواضح", ""), ("계약은 매우 짧습니다", ""), ("", ""), ("4711", ""),
    ],
)  # fmt: skip
def test_the_language_of_a_text_is_one_of_seven_or_none(text: str, code: str) -> None:
    assert language_of(text, lexicons()) == code


WORDS = st.lists(st.sampled_from(LEASE.split()), max_size=60).map(" ".join)
TEXTS = st.one_of(st.text(max_size=200), WORDS, st.sampled_from(HARMLESS))


@given(st.lists(TEXTS, max_size=4).map(" ".join))
def test_what_leaves_is_plain_and_leaves_again(said: str) -> None:
    text = released(said).released.text
    assert re.fullmatch(r"[A-Za-z .,;:?!']*", text), text
    assert "  " not in text
    assert released(text).released.text == text


@given(st.lists(st.sampled_from(LEASE.split("\n\n")[1].split()), min_size=30, max_size=30, unique=True))
def test_no_sentence_of_the_passage_leaves_in_any_order_of_its_words(words: list[str]) -> None:
    made = released(" ".join(words).replace(".", "").replace(";", "") + ".")
    assert not made.released


@pytest.mark.parametrize(
    "piece", ["1 ", "a ", "=", "twenty ", "&amp;", "a@", "a.", "1-", "#", "roof repair ", "good. ", "l'"]
)
def test_the_work_grows_with_what_is_said_and_no_faster(piece: str) -> None:
    assert growth(released, piece * (6_000 // len(piece))) < MOST_GROWTH


def test_only_the_release_makes_what_may_leave() -> None:
    source = Path(lamella.__file__).parent
    made = [path.name for path in source.rglob("*.py") if re.search(r"\bReleased\(\S", path.read_text("utf-8"))]
    assert made == ["release.py"]
