"""One form for what looks or reads the same: case, accents, widths, look-alike letters, invisible characters.

Also the words so common that their order tells nothing, headings that every document has, and where sentences end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_LOOK_ALIKES = dict(
    zip(
        "абвгдеезіјклмнорѕтухԁһԛԝԍցոսզаαβγδεηικνορτυχωıɑɡǀ∣ⅰ",
        "abvrdee3ljklmhopstuxdhqwgqnuqaaßydenlkvoptuxwlaglll",
        strict=False,
    )
)
_LOOK_ALIKES.update({"а": "a", "в": "b", "с": "c", "у": "y", "β": "b", "δ": "d", "ß": "b", "α": "a"})

_SKELETON = str.maketrans({"0": "o", "1": "l", "3": "e", "4": "a", "5": "s", "7": "t", "i": "l", "$": "s", "@": "a"})

_IDEOGRAPHS = r"\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text in its one form; `origin[i]` is the place in the text that its character `i` comes from."""

    text: str
    origin: tuple[int, ...]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """The place in the text of characters `start` to `end`; not empty."""
        return self.origin[start], self.origin[end - 1] + 1


@dataclass(frozen=True, slots=True)
class Word:
    """One word as it compares, or one character where words are written without spaces; its place in the text."""

    text: str
    start: int
    end: int


@lru_cache(maxsize=8192)
def _fold_one(character: str) -> str:
    """No mark, no width, no case; a digit of any script as 0 to 9; nothing for what can't be seen."""
    out = []
    for part in unicodedata.normalize("NFKD", character).casefold():
        category = unicodedata.category(part)
        if category in ("Mn", "Me", "Cf"):
            continue
        digit = unicodedata.digit(part, None) if category == "Nd" else None
        out.append(str(digit) if digit is not None else _LOOK_ALIKES.get(part, part))
    return "".join(out)


@lru_cache(maxsize=8192)
def letters_of(character: str) -> str:
    """Its letters and digits in their one form, digits that stand for letters as these; "" if it has none."""
    plain = _fold_one(_IN_A_BOX.get(character, character))
    return "".join(part for part in plain if part.isalnum()).translate(_SKELETON)


_BOXES = (0x1F150, 0x1F170, 0x1F1E6)
_IN_A_BOX = {chr(first + at): chr(ord("a") + at) for first in _BOXES for at in range(26)}
"""Letters in a circle, a square or a flag, which Unicode does not take apart."""


def fold(text: str) -> Folded:
    """The text in its one form."""
    pieces, origin = [], []
    for at, character in enumerate(text):
        folded = _fold_one(character)
        pieces.append(folded)
        origin += [at] * len(folded)
    return Folded("".join(pieces), tuple(origin))


def words_of(folded: Folded) -> list[Word]:
    """The words in order; letters that digits stand for are letters again (`l3ase`)."""
    found = []
    for match in _WORD.finditer(folded.text):
        word = match.group()
        skeleton = word if word.isdecimal() else word.translate(_SKELETON)
        found.append(Word(skeleton, *folded.place(match.start(), match.end())))
    return found


def is_ideograph(character: str) -> bool:
    """Whether it is a word by itself."""
    return _IDEOGRAPH.match(character) is not None


def stream_of(words: list[Word]) -> Folded:
    """All letters and digits without what stands between them, as `f o r   e x a m p l e` or `forexample` reads."""
    text = "".join(word.text for word in words)
    origin: list[int] = []
    for word in words:
        # A word that folding made longer or shorter is one place.
        exact = word.end - word.start == len(word.text)
        origin += range(word.start, word.end) if exact else [word.start] * len(word.text)
    return Folded(text, tuple(origin))


_FUNCTION_WORDS = """
a about above after again against all also am an and any are as at be because been before being below between both but
by can could did do does doing down during each either else enough ever far every few for from further get gets give
given go goes had has have having he her here hers him his how however i if in into is it its itself just know least
less let like made make makes many may me might more most much must my need neither no nor not now of off often on
once one only or other our out over own per please same shall she should since so some still such take taken than that
the their them then there think these they this those through to too two under until up upon us use used uses using
very was we well were what when where whether which while who whom whose why will with within without would yes yet
you your
aber als am an auch auf aus bei bin bis da das dass dem den der des die dies diese diesem dieser dieses doch du durch
ein eine einem einen einer eines er es fur hat hatte ich ihr im in ist ja kann kein keine man mehr mit muss nach nicht
noch nur oder sein sich sie sind so soll uber um und uns unter vom von vor war was weil wenn wer werden wie wir wird zu
zum zur zwischen
au aux avec ce cette ces comme dans de des du elle en est et il la le les leur mais ne nous on ou par pas plus pour que
qui sa se ses son sur un une vous
al con como de del el ella en entre es esta este la las lo los mas muy no o para pero por que se sin su sus un una y ya
"""

_PLAIN_WORDS = """
answer answers base case cases chapter chapters contains content contents covers data describes description details
document documents explains figures file files general guidance help includes information item items kind kinds list
material materials name names note notes number numbers page pages paragraph part parts point points question questions
reader readers reference references related relevant report says section sections source sources states subject table
text texts title titles topic topics user users way ways word words work works
"""

_HEADINGS = """
abstract agenda annex appendix background chapter conclusion conclusions confidential contact contents definitions
details discussion draft faq figures foreword general glossary history index information internal introduction
management method methods objective objectives outlook overview plan policy preface procedure process purpose
recommendations references report results review risks schedule scope strategy summary table terms update version
anhang anlage einleitung einfuhrung inhalt inhaltsverzeichnis ubersicht zusammenfassung zweck ziel ziele
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(word.text for word in words_of(fold(text)))


FUNCTION_WORDS = _words(_FUNCTION_WORDS)
"""Words that carry no content, of English, German, French and Spanish, in the form that compares."""

PLAIN_WORDS = FUNCTION_WORDS | _words(_PLAIN_WORDS) | _words(_HEADINGS)
"""Those, and words that speak of any document."""


_SENTENCE = re.compile(r".+?(?:[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？]+|\n+|$)", re.DOTALL)


def sentence_places(text: str) -> Iterator[re.Match[str]]:
    """Each sentence where it stands; together they are the text."""
    return _SENTENCE.finditer(text)


def sentences(text: str) -> Iterator[str]:
    """Each sentence."""
    return (match.group() for match in sentence_places(text))
