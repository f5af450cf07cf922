"""The word lists of the restricted guard: each file is whole, clean and tells numerals from ordinary words."""

import tomllib
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import lamella.guard

FOLDER = Path(lamella.guard.__file__).parent / "languages"
LANGUAGES = ("en", "de", "fr", "es", "ru", "zh", "ja")
SCRIPTS = {"en": "latin", "de": "latin", "fr": "latin", "es": "latin", "ru": "cyrillic", "zh": "han", "ja": "kana"}
KEYS = {
    "function_words",
    "numerals",
    "numeral_roots",
    "numeral_exceptions",
    "articles",
    "units",
    "amounts",
    "months",
    "weekdays",
    "ambiguous_dates",
    "name_triggers",
    "name_followers",
    "first_names",
    "surnames",
    "spelling_alphabet",
    "glossary",
    "capitalised",
    "acronyms",
    "endings",
    "forms",
    "determiners",
    "before_dates",
}
BARE = {"person_verbs", "ordinary_names"}
OWN_KEYS = {"de": {"nouns", "noun_suffixes"} | BARE, "zh": {"roles"} | BARE, "ja": {"roles"} | BARE}
"""What tells a name where a capital tells none."""

CASED = {"nouns", "noun_suffixes", "capitalised", "acronyms"}
LEAST = {"function_words": 150, "numerals": 80, "glossary": 700, "first_names": 400, "surnames": 200, "acronyms": 60}
LEAST |= {"units": 60, "amounts": 20, "months": 12, "weekdays": 7, "name_triggers": 30, "name_followers": 10}


@cache
def lists(language: str) -> dict[str, list[str]]:
    loaded = tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
    named = {"language", "name", "script", "there_is"}
    return {k: v.split() if isinstance(v, str) else list(v) for k, v in loaded.items() if k not in named}


def words(language: str, key: str) -> list[str]:
    return lists(language)[key]


def is_numeral(language: str, word: str) -> bool:
    """The rule that the lists are written for: a listed numeral, or a root inside a word that is no exception."""
    if word in words(language, "numerals"):
        return True
    return word not in words(language, "numeral_exceptions") and any(
        root in word for root in words(language, "numeral_roots")
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_file_names_its_language_and_has_every_key(language: str) -> None:
    loaded = tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
    assert (loaded["language"], loaded["script"]) == (language, SCRIPTS[language])
    assert loaded["name"]
    assert loaded["there_is"].count("{contact}") == 1
    assert set(lists(language)) == KEYS | OWN_KEYS.get(language, set())


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_list_has_no_word_twice(language: str) -> None:
    twice = {key: [w for w, n in Counter(held).items() if n > 1] for key, held in lists(language).items()}
    assert not any(twice.values()), twice


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_composed_letters_in_lower_case(language: str) -> None:
    for key, held in lists(language).items():
        assert [w for w in held if unicodedata.normalize("NFC", w) != w] == []
        if key not in CASED:
            assert [w for w in held if w != w.lower()] == [], key


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_of_letters_and_of_marks_that_stand_inside_words(language: str) -> None:
    for key, held in lists(language).items():
        assert [w for w in held if not all(c.isalnum() or c in "-'._/&%％" for c in w)] == [], key


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_list_is_long_enough_to_be_of_use(language: str) -> None:
    sizes = {key: len(held) for key, held in lists(language).items()}
    assert {key: sizes[key] for key, least in LEAST.items() if sizes[key] < least} == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_glossary_frees_no_date_numeral_or_first_name(language: str) -> None:
    glossary = {part for entry in words(language, "glossary") for part in {entry, *entry.split("_")}}
    for key in ("months", "weekdays", "first_names", "numerals", "spelling_alphabet"):
        held = set(words(language, key)) - set(words(language, "ambiguous_dates"))
        assert set(words(language, "glossary")) & held == set(), key
    assert glossary & set(words(language, "first_names")) == set()
    assert [w for w in glossary if is_numeral(language, w)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_word_is_a_numeral_an_article_or_a_function_word_never_two_of_them(language: str) -> None:
    numerals = set(words(language, "numerals"))
    assert numerals & set(words(language, "articles")) == set()
    assert numerals & set(words(language, "function_words")) == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_exception_is_needed(language: str) -> None:
    roots = words(language, "numeral_roots")
    assert [w for w in words(language, "numeral_exceptions") if not any(root in w for root in roots)] == []
    assert set(words(language, "numeral_exceptions")) & set(words(language, "numerals")) == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_ambiguous_date_is_a_month_or_a_weekday(language: str) -> None:
    dates = set(words(language, "months")) | set(words(language, "weekdays"))
    assert set(words(language, "ambiguous_dates")) - dates == set()


NUMERALS = {
    "en": """two seven twelve nineteen forty hundred thousands millionth twenty-three third ninth dozen twice fourfold
        quadrupled half century threehundred multimillion pair sixteenth""",
    "de": """zwei dreizehn zweihundert dreiundzwanzig siebzigste tausende millionen zweite dritten dreifach verdoppelt
        zwölfmal zweieinhalb dreijährige viermal drittel halbjahr hälfte jahrhundert zweistelligen fünfzigtausend""",
    "fr": """deux trois quatorze vingt-deux soixante-dix cents milliers millions deuxième troisièmes dixième moitié
        tiers douzaine double quadrupler décennie quinzaine cinquante-six quatre-vingt-dix""",
    "es": """dos quince veintidós treinta quinientos doscientas mil millones primera tercer décima mitad tercio docena
        doble triplicó década centenar dieciséis cuatrocientos""",
    "ru": """два двух трёх четырьмя пятнадцать двадцатью сорока пятидесяти восемьсот тысячами миллиона миллиардов
        второго третьей десятого двухсот трёхлетний пятикратно полтора половине треть удвоился десятилетия вдвое""",
    "zh": """二 三 十五 二十三 三百 两千 五万 八亿 第二 第三 十二个 三分之一 一半 双倍 翻番 百分之五 世纪
        季度 两百万 几十""",
    "ja": """二 三 十五 二十三 三百 二千 五万 八億 第二 第三 ふたつ みっつ 三分の一 半分 倍増 世紀
        四半期 数百 何十 ダブル""",
}
ORDINARY = {
    "en": """height weight freight often canine feminine server contract deadline network fortune tension attention
        tender written listen millionaire weighty content antenna done stone""",
    "de": """einfach eindeutig achten beachten macht nacht schlacht zweifel zweifelsfrei abzweig betriebszweig dreist
        rundreise handreichung klavier aktivierte gravierend helfen elfenbein beinhaltet einhaltung stadtviertel""",
    "fr": """centre récent accent décent centrale processus étroits octrois hideux circuit accepter bronze septembre
        serveur contrat milieu centime descente innocent moitoyen""",
    "es": """ciencia reciente ciertos docente conoce entonces bizcocho crece ofrece estrés paciente decente millonario
        servidor contrato humillar pésimo derrochó suficiente""",
    "ru": """просто место часто стоимость пятно опять сотрудник семья одинаково простой постоянно осторожно истории
        пистолет стройный утро повторить автор распятие семинар договор сервер обязательство нашествие""",
    "zh": """十分 万一 老百姓 百货 千方百计 三角形 第三方 二维码 四川 四周 再三 五金 半导体 半岛 两岸 一般 一起 统一
        服务器 合同""",
    "ja": """十分 万一 千葉 百貨店 三角形 第三者 二次元 四季 四角 五輪 七夕 八百屋 九州 十字架 万年筆 一般 統一 契約
        サーバー 一緒""",
}


@pytest.mark.parametrize(("language", "word"), [(k, w) for k in LANGUAGES for w in NUMERALS[k].split()])
def test_a_numeral_is_told_by_list_or_root(language: str, word: str) -> None:
    assert is_numeral(language, word)


@pytest.mark.parametrize(("language", "word"), [(k, w) for k in LANGUAGES for w in ORDINARY[k].split()])
def test_an_ordinary_word_is_no_numeral(language: str, word: str) -> None:
    assert not is_numeral(language, word)


def test_a_german_noun_starts_with_a_capital() -> None:
    assert [w for w in words("de", "nouns") if not w[0].isupper()] == []
    assert len(words("de", "nouns")) >= 1500
    assert {"Vertrag", "Vertrags", "Verträge", "Verträgen", "Rechenzentrum", "Firewall"} <= set(words("de", "nouns"))
