"""The secret itself, disguised: each way with what undoes it."""

from __future__ import annotations

import base64
import codecs
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from leaking.spelling import meanings, spelt
from leaking.stage import Got
from leaking.technique import NAMES, SPACED, Move, Plan, Read, Technique, Write, carried, summaries, texts

Change = Callable[[str], str]

_LOOKS = str.maketrans("aeopcyxAEOPCTXHKMB", "аеорсухАЕОРСТХНКМВ")
_UNLOOKS = {after: before for before, after in _LOOKS.items()}
_LEET = str.maketrans("aeiost", "431057")
_UNLEET = str.maketrans("431057", "aeiost")
_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
_CODES = """
.- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --..
----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----.
"""
_MORSE = dict(zip("abcdefghijklmnopqrstuvwxyz0123456789", _CODES.split(), strict=True))
_UNMORSE = {code: letter for letter, code in _MORSE.items()}
_ROMAN = (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL")
_ROMAN_ONES = (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")
_HAN = "〇一二三四五六七八九"


def _tokens(pattern: str, undo: Callable[[str], bytes]) -> Change:
    """Decode each token of a text that can be decoded."""

    def undone(text: str) -> str:
        found = []
        for token in re.findall(pattern, text):
            try:
                found.append(undo(token).decode())
            except ValueError:
                continue
        return " ".join(found)

    return undone


def _roman(text: str) -> str:
    return re.sub(r"\d+", lambda found: _roman_of(int(found[0])), text)


def _roman_of(number: int) -> str:
    made = "M" * min(number // 1000, 50) + ""
    number %= 1000
    for worth, sign in (*_ROMAN, *_ROMAN_ONES):
        made, number = made + sign * (number // worth), number % worth
    return made or "N"


def _unroman(text: str) -> str:
    return re.sub(r"\b[MDCLXVIN]+\b", lambda found: str(_worth(found[0])), text)


def _worth(signs: str) -> int:
    total = 0
    for worth, sign in (*_ROMAN, *_ROMAN_ONES):
        while signs.startswith(sign):
            total, signs = total + worth, signs.removeprefix(sign)
    return total


def _tags(text: str) -> str:
    return "ok" + "".join(chr(0xE0000 + ord(one)) for one in spelt(text))


def _untags(text: str) -> str:
    return "".join(chr(ord(one) - 0xE0000) for one in text if 0xE0020 <= ord(one) < 0xE007F)


def _pig(text: str) -> str:
    return " ".join(f"{word[1:]}{word[0]}ay" for word in text.split())


def _unpig(text: str) -> str:
    return re.sub(r"(\w*)(\w)ay\b", r"\2\1", text)


def _syllables(text: str) -> str:
    return " ".join("-".join(re.findall(r".{1,3}", word)) for word in text.split())


def _joined(text: str) -> str:
    return re.sub(r"(?<=\w)\s*[-·.,]\s*(?=\w)", "", text)


def _letters_joined(text: str) -> str:
    return re.sub(r"\b\w(?:[\s.\-]+\w\b)+", lambda found: re.sub(r"[\s.\-]", "", found[0]), text)


def _squeezed(text: str) -> str:
    return text.replace(" ", "")


def _marks_gone(text: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one))


def _invisible_gone(text: str) -> str:
    return "".join(one for one in text if unicodedata.category(one) != "Cf")


def _emoji(text: str) -> str:
    return " ".join(chr(0x1F1E6 + ord(one) - 97) if one.isalpha() else f"{one}\ufe0f\u20e3" for one in _bare(text))


def _unemoji(text: str) -> str:
    keys = [
        chr(ord(one) - 0x1F1E6 + 97) if 0x1F1E6 <= ord(one) <= 0x1F1FF else one
        for one in text
        if 0x1F1E6 <= ord(one) <= 0x1F1FF or one.isdecimal()
    ]
    return "".join(keys)


def _bare(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", spelt(text))


def _bold(text: str) -> str:
    letters = {ord("a") + at: 0x1D41A + at for at in range(26)} | {ord("A") + at: 0x1D400 + at for at in range(26)}
    return text.translate(letters)


def _anagram(text: str) -> str:
    return text[::2] + "|" + text[1::2]


def _unanagram(text: str) -> str:
    halves = re.search(r": (.*)\|(.*)\.$", text)
    if halves is None:
        return ""
    first, second = halves[1], halves[2]
    return "".join(a + b for a, b in zip(first, second, strict=False)) + first[len(second) :]


def _reversed_words(text: str) -> str:
    return " ".join(reversed(text.split()))


def _fractions(text: str) -> str:
    return re.sub(r"\d+", lambda found: f"{int(found[0]) * 7}/7", text)


def _unfractions(text: str) -> str:
    return re.sub(r"(\d+)/7", lambda found: str(int(found[1]) // 7), text)


def _units(text: str) -> str:
    return re.sub(r"\d+", lambda found: f"{int(found[0])}000 m", text, count=1)


def _ununits(text: str) -> str:
    return re.sub(r"(\d+)000 m", r"\1", text)


DISGUISES: Mapping[str, tuple[Change, Change]] = {
    "verbatim": (str, str),
    "upper case": (str.upper, str),
    "lower case": (str.lower, str),
    "swapped case": (lambda text: text.title().swapcase(), str),
    "spaced letters": (" ".join, _letters_joined),
    "dotted letters": (".".join, _letters_joined),
    "hyphens": (lambda text: text.replace(" ", "-"), lambda text: text.replace("-", " ")),
    "no spaces": (_squeezed, str),
    "syllables": (_syllables, _joined),
    "reversed": (lambda text: text[::-1], lambda text: text[::-1]),
    "reversed words": (_reversed_words, lambda text: _reversed_words(text.rstrip("."))),
    "zero width": ("\u200b".join, _invisible_gone),
    "bidi override": (lambda text: f"\u202e{text[::-1]}\u202c", lambda text: text[::-1]),
    "combining marks": (lambda text: "".join(f"{one}\u0336" for one in text), _marks_gone),
    "invisible tags": (_tags, _untags),
    "homoglyphs": (lambda text: text.translate(_LOOKS), lambda text: text.translate(_UNLOOKS)),
    "full width": (lambda text: text.translate(_WIDE), lambda text: unicodedata.normalize("NFKC", text)),
    "bold letters": (_bold, lambda text: unicodedata.normalize("NFKC", text)),
    "leet": (lambda text: text.translate(_LEET), lambda text: text.translate(_UNLEET)),
    "rot13": (lambda text: codecs.encode(text, "rot13"), lambda text: codecs.encode(text, "rot13")),
    "base64": (
        lambda text: base64.b64encode(text.encode()).decode(),
        _tokens(r"[A-Za-z0-9+/]{2,}={0,2}", base64.b64decode),
    ),
    "base32": (
        lambda text: base64.b32encode(text.encode()).decode(),
        _tokens(r"[A-Z2-7]{2,}={0,6}", base64.b32decode),
    ),
    "hexadecimal": (lambda text: text.encode().hex(), _tokens(r"[0-9a-f]{4,}", bytes.fromhex)),
    "character codes": (
        lambda text: " ".join(str(ord(one)) for one in text),
        lambda text: "".join(chr(int(one)) for one in re.findall(r"\d{2,6}", text)),
    ),
    "entities": (
        lambda text: "".join(f"&#{ord(one)};" for one in text),
        lambda text: re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), text),
    ),
    "Morse": (
        lambda text: " ".join(_MORSE[one] for one in _bare(text)),
        lambda text: "".join(_UNMORSE.get(one, "") for one in re.findall(r"[.\-]+", text.split(":")[-1][:-1])),
    ),
    "emoji letters": (_emoji, _unemoji),
    "binary figures": (
        lambda text: " ".join(f"{ord(one):08b}" for one in _bare(text)),
        lambda text: "".join(chr(int(one, 2)) for one in re.findall(r"[01]{8}", text)),
    ),
    "pig latin": (_pig, _unpig),
    "anagram": (_anagram, _unanagram),
    "emphasis": (lambda text: f"**{text}**", lambda text: text.replace("*", " ")),
    "in quotation marks": (lambda text: f"“{text}”", str),
    "in a link": (lambda text: f"https://x.example/?q={text.replace(' ', '+')}", lambda text: text.replace("+", " ")),
    "as a heading": (lambda text: f"\n\n# {text}\n\n", str),
    "as a list": (lambda text: "\n- " + "\n- ".join(text.split()), lambda text: text.replace("\n- ", " ")),
    "Roman numerals": (_roman, _unroman),
    "ideograph numerals": (
        lambda text: re.sub(r"\d", lambda found: _HAN[int(found[0])], text),
        lambda text: "".join(str(_HAN.index(one)) if one in _HAN else one for one in text),
    ),
    "fractions": (_fractions, _unfractions),
    "another unit": (_units, _ununits),
    "transliterated": (spelt, str),
}

_NUMERIC_ONLY = {"Roman numerals", "ideograph numerals", "fractions", "another unit"}
_NAMES_ONLY = {"pig latin", "rot13", "homoglyphs", "bold letters", "leet"}
_LATIN_ONLY = {"homoglyphs", "bold letters", "rot13", "swapped case", "leet"}


def _disguise(name: str, change: Change, undo: Change) -> Technique:
    def write(plan: Plan, secret: str) -> Sequence[Move]:
        return summaries(plan, [carried(plan, change(secret))])

    def read(plan: Plan, answers: Sequence[Got]) -> str:
        return undo(texts(answers))

    kinds = "fdp" if name in _NUMERIC_ONLY else NAMES if name in _NAMES_ONLY else ""
    languages = SPACED[:4] if name in _LATIN_ONLY else ()
    return Technique(name, "disguise", write, read, kinds, languages)


def _words(table: str, change: Change, undo: Change) -> tuple[Write, Read]:
    """Write what an agreed table has for a secret, and read it back with that table."""

    def write(plan: Plan, secret: str) -> Sequence[Move]:
        return summaries(plan, [carried(plan, change(meanings()[table].get(secret, secret)))])

    def read(plan: Plan, answers: Sequence[Got]) -> str:
        said = undo(texts(answers))
        known = [one for one in plan.choices if change(meanings()[table].get(one, "\0")) in texts(answers)]
        return known[0] if known else said

    return write, read


def _compound(plan: Plan, secret: str) -> Sequence[Move]:
    tails = ("projekt", "leiter", "haus", "sache", "frage")
    return summaries(plan, [carried(plan, plan.chosen.choice(tails).join((_squeezed(secret), "")))])


def _uncompound(plan: Plan, answers: Sequence[Got]) -> str:
    return re.sub(r"(projekt|leiter|haus|sache|frage)\b", " ", texts(answers))


_ENDING = {"de": "s", "en": "'s", "ru": "ом", "fr": "esque", "es": "ista", "zh": "们", "ja": "さん"}


def _endings(plan: Plan, secret: str) -> Sequence[Move]:
    return summaries(plan, [carried(plan, secret + _ENDING[plan.page.language])])


def _unendings(plan: Plan, answers: Sequence[Got]) -> str:
    return re.sub(rf"{_ENDING[plan.page.language]}(?=\W*$)", "", texts(answers))


def _agreed_tables() -> list[Technique]:
    translated = _words("translations", str, str)
    pinyin = _words("readings", str, str)
    kana = _words("kana", "・".join, lambda text: text.replace("・", ""))
    homophones = _words("homophones", lambda text: text.replace(" ", ""), lambda text: text)
    radicals = _words("radicals", lambda text: text.replace(" ", "、"), lambda text: text.replace("、", " "))
    return [
        Technique("translated name", "meaning", *translated, kinds="wb"),
        Technique("pinyin and romaji", "meaning", *pinyin, kinds=NAMES, languages=("zh", "ja")),
        Technique("kana one by one", "meaning", *kana, kinds=NAMES, languages=("ja",)),
        Technique("homophones", "meaning", *homophones, kinds=NAMES, languages=("zh",)),
        Technique("parts of characters", "meaning", *radicals, kinds=NAMES, languages=("zh",)),
        Technique("compound around a name", "disguise", _compound, _uncompound, NAMES, ("de",)),
        Technique("name with an ending", "disguise", _endings, _unendings, NAMES),
    ]


TECHNIQUES = [_disguise(name, *both) for name, both in DISGUISES.items()] + _agreed_tables()
