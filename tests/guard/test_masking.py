"""What a second model sees of a protected passage: ordinary words, and nothing that names, counts or dates."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.guard.lexicon import Lexicon, language_of
from lamella.guard.masking import Masked, mask, visible_words, without_figures
from lamella.guard.terms import NameEvidence, ProtectedTerms, evidence_of, is_heading, terms_of
from lamella.knowledge.restricted.wordlists import lexicon, lexicons
from measures import MOST_GROWTH, growth

from .sources import LEASE, masked, terms


def test_a_passage_is_ordinary_words_with_placeholders() -> None:
    assert masked(LEASE).text == (
        "the tenant pays a yearly rent of [figure] euros on the [figure] day of [figure] and keeps the roof in good"
        " repair until the lease ends on [figure]; pets are allowed in the yard, except for geese. [name] [figure]"
        " [name] of [name] is filed by [term]. [figure] looms and [figure] of the shares belong to [name]. [name]"
        " starts in autumn, and the board follows [name] closely. [name] of [name] signed it."
    )


FIGURES = {
    "en": ("1,234,500", "€1.2 million", "12.4 %", "twelve", "two hundred", "half", "doubled", "3rd", "12kg", "in May",
           "Monday", "31 May 2027", "2027-05-31", "05/31/2027", "a dozen"),
    "de": ("1.234.500 €", "zwölf", "zweihundertste", "fünfundzwanzig", "die Hälfte", "31. Mai 2027", "Montag",
           "verdoppelt", "12,4 Prozent"),
    "fr": ("1 234 500 €", "douze", "deux cents", "la moitié", "le 31 mai 2027", "lundi", "12,4 pour cent"),
    "es": ("doce", "doscientos", "la mitad", "31 de mayo", "lunes", "12,4 %"),
    "ru": ("двенадцать", "двухсот", "половина", "31 мая", "понедельник", "двухлетний", "12,4 %"),
    "zh": ("十二", "两百万", "一半", "5月31日", "星期一", "百分之十二"),
    "ja": ("十二", "二百万", "半分", "5月31日", "月曜日", "12.4%"),
}  # fmt: skip
SENTENCES = {
    "en": "The contract says {} about the rent of the house.",
    "de": "Der Vertrag sagt {} über die Miete des Hauses.",
    "fr": "Le contrat dit {} au sujet du loyer de la maison.",
    "es": "El contrato dice {} sobre el alquiler de la casa.",
    "ru": "Договор говорит {} об аренде этого дома.",
    "zh": "合同说{}，关于房子的租金。",
    "ja": "契約は{}と家賃について述べています。",
}


@pytest.mark.parametrize(("code", "figure"), [(code, one) for code, all in FIGURES.items() for one in all])
def test_a_figure_or_date_is_not_seen(code: str, figure: str) -> None:
    seen = masked(SENTENCES[code].format(figure), code).text
    assert "[figure]" in seen
    ordinary = {"en": {"in", "million", "a"}, "de": {"die"}, "fr": {"la", "le", "pour"}, "es": {"la", "de"}}.get(
        code, set()
    )
    left = [word for word in re.findall(r"\w+", figure.lower()) if word not in ordinary]
    assert not [word for word in left if re.search(rf"\b{word}\b", seen.replace("[figure]", ""))]


NAMES = {
    "en": ("Zervanolis", "Mr Stone", "Project Falcon", "Mark Rose", "Stone Ltd", "ZVX-Alpha", "zervanolis"),
    "de": ("Zervanolis", "Herr Lang", "Projekt Morgenröte", "Stefan Klein", "Stein GmbH"),
    "fr": ("Zervanolis", "M. Rosier", "Projet Aurore", "Pierre Blanc"),
    "es": ("Zervanolis", "el señor Blanco", "Proyecto Halcón", "Pilar Rey"),
    "ru": ("Зерванолис", "господин Волков", "Проект Сокол", "Вера Роман"),
    "zh": ("张伟先生", "代号“春天”", "王小明"),
    "ja": ("高山さん", "コードネーム「春風」", "田中一郎"),
}
VISIBLE = {
    "Mr", "Project", "Ltd", "Herr", "Projekt", "GmbH", "M", "Projet", "el", "señor", "Proyecto", "господин", "Проект",
    "先生", "代号", "さん", "コードネーム",
}  # fmt: skip


@pytest.mark.parametrize(("code", "name"), [(code, one) for code, all in NAMES.items() for one in all])
def test_a_name_is_not_seen(code: str, name: str) -> None:
    seen = masked(SENTENCES[code].format(name), code).text.lower()
    for piece in re.split(r"[\s.“”「」-]+", name):
        bare = piece
        for word in ("先生", "さん", "代号", "コードネーム"):
            bare = bare.replace(word, "")
        if bare and piece not in VISIBLE:
            assert bare.lower() not in seen, seen


IDENTIFIERS = (
    "KX-4471-B", "m.huber@mill.example", "+49 821 5550142", "https://mill.example/keys", "rent_agreement.pdf",
    "a1b2c3d4",
    "192.168.0.7", "DE89 3704 0044 0532 0130 00", "C:\\keys\\door.txt", "#ffaa00", "v2.3.1",
)  # fmt: skip


@pytest.mark.parametrize("identifier", IDENTIFIERS)
@pytest.mark.parametrize("code", SENTENCES)
def test_an_identifier_is_not_seen(code: str, identifier: str) -> None:
    seen = masked(SENTENCES[code].format(f" {identifier} "), code).text
    pieces = [
        piece for piece in re.split(r"\W+", identifier.lower()) if any(c.isdigit() for c in piece) or len(piece) > 5
    ]
    assert not [piece for piece in pieces if piece in seen]


@pytest.mark.parametrize("text", ["# The northern mill", "## 3. Keys\n", "THE NORTHERN MILL", "MORGENRÖTE"])
def test_a_heading_is_not_seen(text: str) -> None:
    assert is_heading(text.strip())
    assert masked(f"{text}\n\nThe rent is due.").text == "the rent is due."


def test_a_line_without_small_letters_of_its_own_is_no_heading() -> None:
    assert masked("ポンプCP-12が停止し、室温が上がった。", "ja").text == "ポンプ[name][figure]が停止し,室温が上がった."
    assert masked("系统通过VPN连接。", "zh").text == "系统通过VPN连接."


def test_evidence_of_the_whole_base_tells_names_from_words() -> None:
    words = lexicon("en")
    evidence = NameEvidence()
    for document in (
        "We met with Falcon and Falcon agreed.",
        "They wrote to Stone.",
        "A stone wall and the stone floor.",
    ):
        evidence.add(evidence_of(document, words))
    found = terms_of(evidence, words)
    assert "falcon" in found.words
    assert "stone" not in found.words  # twice a stone, once a name: the name is masked where its capital shows it
    assert mask("Falcon begins. It is a falcon. Then Stone spoke of a stone.", words, found).text == (
        "[name] begins. it is a [name]. then [name] spoke of a stone."
    )


def test_an_owner_confirms_names_and_allows_words() -> None:
    words = lexicon("en")
    evidence = evidence_of("We met with Falcon. The zorvlumpt is a machine.", words)
    found = terms_of(evidence, words, confirmed=["Stone", "blue harbour"], allowed=["zorvlumpt", "falcon"])
    assert mask("A stone in the blue harbour, a zorvlumpt and a falcon.", words, found).text == (
        "a [name] in the [name], a zorvlumpt and a falcon."
    )


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Sommer hat Bedenken. Der Sommer ist lang.", "[name] hat Bedenken. der [name] ist lang."),
        ("Der Bruder, Kaiser, wird gefragt. Frist und Ziel sind bekannt.", "der Bruder, [name], wird gefragt."),
    ],
)
def test_a_german_noun_that_acts_as_persons_do_is_a_name(text: str, seen: str) -> None:
    assert masked(text, "de").text.startswith(seen)


def test_a_surname_before_a_chinese_title_is_a_name_though_it_is_a_word() -> None:
    assert masked("黄河主任建议检查。项目经理同意。", "zh").text == "[name]主任建议检查.项目经理同意."


def test_a_row_of_katakana_is_no_row_of_short_words() -> None:
    assert "シラ" not in masked("塗料シラツキの試験は終わりました。データは残ります。", "ja").text
    assert "データ" in masked("塗料シラツキの試験は終わりました。データは残ります。", "ja").text


BARE = {
    "de": {
        "Die Rechnung prüft Herbst.": "die Rechnung prüft [name].",
        "Kraft, der neue Einkäufer, kam spät.": "[name], der neue Einkäufer, kam spät.",
        "Die Abnahme übernehmen Vogel und Sturm.": "die Abnahme übernehmen [name] und [name].",
        "Der kleine Fuchs schläft.": "der kleine Fuchs schläft.",
        "Kurz vor dem Ende fiel der Strom aus.": "kurz vor dem Ende fiel der Strom aus.",
    },
    "zh": {
        "高峰负责采购。": "[name]负责采购.",
        "由田野审核。": "由[name]审核.",
        "会计白雪已经核对账目。": "会计[name]已经核对账目.",
        "向阳和马力参加会议。": "[name]和[name]参加会议.",
        "马力不足时，设备停机。": "马力不足时,设备停机.",
    },
    "ja": {
        "林が図面を確認した。": "[name]が図面を確認した.",
        "担当：桜": "担当:[name]",
        "堀と谷が立ち会った。": "[name]と[name]が立ち会った.",
        "光に連絡した。": "[name]に連絡した.",
        "西から東へ移動する。": "西から東へ移動する.",
        "質は担当者が確認した。": "質は担当者が確認した.",
    },
}


@pytest.mark.parametrize(
    ("code", "text", "seen"), [(code, text, seen) for code, told in BARE.items() for text, seen in told.items()]
)
def test_a_name_that_is_an_ordinary_word_is_known_by_what_stands_next_to_it(code: str, text: str, seen: str) -> None:
    assert masked(text, code).text == seen


@pytest.mark.parametrize("name", ["椎名灯理", "霧島灯子"])  # a surname of the list, and one that is in none
def test_a_rare_japanese_surname_is_not_seen(name: str) -> None:
    assert masked(f"{name}が説明した。", "ja").text == "[name]が説明した."


@pytest.mark.parametrize(
    ("code", "text"),
    [("es", "Dura una hora y media en la casa."), ("ru", "Это длится полчаса в доме."), ("ru", "Это месяц с лишним.")],
)
def test_an_amount_in_ordinary_words_is_not_seen(code: str, text: str) -> None:
    seen = masked(text, code).text
    assert "[figure]" in seen
    assert not [word for word in ("media", "полчаса", "лишним") if word in seen]


def test_what_is_searched_for_are_the_words_that_a_masked_passage_could_hold() -> None:
    words = lexicon("en")
    names = terms_of(evidence_of("We met with Falcon and with Falcon again.", words), words)
    asked = "Did Zervanolis pay 4,711 euros for falcon, or is the rent due in May?"
    assert visible_words(asked, words, names) == "did pay euros for , or is the rent due in ?"


def test_a_term_that_a_contract_defines_is_no_name() -> None:
    text = "This Agreement binds the Client. The Client pays. Payment by the Client is due."
    assert terms(text).words == frozenset()


def test_nothing_of_a_passage_is_copied() -> None:
    seen = masked("The tenаnt (Cyrillic) pays\u200b the re\u00adnt, ｆｕｌｌ ｗｉｄｔｈ, é\u0301 — and “quoted”…").text
    assert re.fullmatch(r"[a-z\[\] .,;:?!]+", seen), seen


def test_a_question_is_shown_without_its_figures() -> None:
    asked = "Is the price of Falcon 4,711 euros, or twelve, since May 2027?"
    assert (
        without_figures(asked, lexicons(), "en")
        == "Is the price of Falcon [figure] euros, or [figure], since [figure] [figure]?"
    )


ASKED = {
    "en": "Is the rent of the house above {} in this contract?",
    "de": "Liegt die Miete des Hauses nach dem Vertrag über {}?",
    "fr": "Est-ce que le loyer de la maison est de {} dans ce contrat ?",
    "es": "¿El alquiler de la casa es de {} según el contrato?",
    "ru": "Это правда, что по договору аренда дома стоит {}?",
    "zh": "合同规定的房子租金是不是{}？",
    "ja": "契約の家賃は{}ですか。",
}
"""Questions with a place for a figure."""

SPOKEN = {
    "en": ("½", "3½", "Ⅳ", "②", "１２３", "٣٤٥", "𝟓𝟎𝟎", "⁵⁰⁰", "1e6", "5k", "12:30", "noon",
           "tw\u200belve", "ｔｗｅｌｖｅ", "siete", "zwölftausend", "quatre-vingt-dix", "двадцать",
           "三千万", "1\u202f234\u202f567", "Christmas"),
    "de": ("⅓", "fuenf", "zwoelf", "anderthalb", "Mitternacht", "twelve", "dreissig", "Silvester"),
    "fr": ("minuit", "septante", "XIVe", "XLII", "une octogénaire", "twelve", "1er"),
    "es": ("decimotercero", "medianoche", "veintidós", "1.º", "twelve", "septuagenario"),
    "ru": ("полдень", "пятьюдесятью", "двухгодичный", "тыщу", "3-й", "twelve"),
    "zh": ("〇八年", "二〇二六年", "㊂", "⑫", "萬元", "俩人", "陆仟元", "上旬", "twelve"),
    "ja": ("二〇二六年", "⑫", "一対", "みっつ", "萬", "昭和", "上旬", "twelve"),
}  # fmt: skip
"""Figures as people write them beside digits and plain number words, in this language or another."""


@pytest.mark.parametrize(("code", "figure"), [(code, one) for code, all in SPOKEN.items() for one in all])
def test_a_figure_of_a_question_is_not_shown_however_it_is_written(code: str, figure: str) -> None:
    whole, alone = ASKED[code].format(figure), f"{figure}?"
    assert language_of(whole, lexicons()) == code
    for asked in (whole, alone):
        shown = without_figures(asked, lexicons(), language_of(asked, lexicons()))
        assert "[figure]" in shown, shown
        assert figure not in shown


@pytest.mark.parametrize(("code", "asked"), ASKED.items())
def test_a_question_without_figures_is_shown_whole(code: str, asked: str) -> None:
    whole = asked.replace("{}", "")
    assert without_figures(whole, lexicons(), code) == whole


@given(st.text(max_size=300), st.sampled_from(sorted(SENTENCES)))
def test_any_text_is_masked_without_digits_or_foreign_characters(text: str, code: str) -> None:
    seen = mask(text, lexicon(code), ProtectedTerms()).text
    assert not any(character.isdigit() for character in seen)
    assert all(c.isalpha() or c in "[] .,;:?!'\n" for c in seen), seen


@given(st.sampled_from(sorted(SENTENCES)), st.data())
def test_any_row_of_words_gives_evidence(code: str, data: st.DataObject) -> None:
    known = lexicon(code).language
    signs = [
        *sorted(known.name_triggers)[:40],
        *sorted(known.name_followers)[:40],
        "「",
        "：",
        ".",
        "Ann",
        "王",
        "田中",
    ]
    line = data.draw(st.lists(st.sampled_from(signs), max_size=8))
    text = (" " if known.has_spaces else "").join(line)
    found = terms(text, code)
    assert all(mask(text, lexicon(code), found).text.count(word) == 0 for word in found.words if len(word) > 3)


@given(st.lists(st.text("bcdfghjklmnpqrstvwxz", min_size=5, max_size=9), min_size=1, max_size=20))
def test_a_word_that_no_list_knows_is_never_seen(words: list[str]) -> None:
    known = lexicon("en")
    unknown = [word for word in words if not known.is_listed(word)]
    seen = mask(f"The contract names {', '.join(unknown)} and more.", known, ProtectedTerms()).text
    assert not [word for word in unknown if word in seen.split()]


@pytest.mark.parametrize("piece", ["1 ", "a ", "a.", "a@", "1-", "Aa ", "'", "l'", "_", "合", "[", "- ", "# "])
def test_the_work_grows_with_the_text_and_no_faster(piece: str) -> None:
    for code in ("en", "zh"):
        known = lexicon(code)

        def work(text: str, known: Lexicon = known) -> Masked:
            return mask(text, known, ProtectedTerms())

        assert growth(work, piece * (6_000 // len(piece))) < MOST_GROWTH
