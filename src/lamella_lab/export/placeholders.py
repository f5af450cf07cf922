"""Text without what it says: each character gives way to another of its class, so that lengths and tokens stay.

The letters in a place are drawn from a fingerprint of the whole text under a key that nobody keeps: equal texts stay
equal within one export, others differ, and no guess can be compared with them. Figures and signs are all the same. Line
breaks, blanks and the form of JSON stay, because windows are cut there.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from functools import lru_cache
from random import Random
from string import ascii_lowercase, ascii_uppercase, digits

from msgspec import DecodeError

from lamella.core.counting import classes_of
from lamella.core.json import decode, encode_text

LETTERS = "bfkmnvwz"
"""No word of any language, and no ending of a file's name, is made of these."""

_FILLERS = {
    "digits": {1: "7"},
    "space": {2: "\u00a0", 3: "\u2003"},
    "wide": {3: "丁", 4: "𠀀"},
    "emoji": {3: "☆", 4: "🔲"},
    "marked": {3: "क"},
    "old": {2: "ω", 3: "ა"},
    "rare": {3: "ꀀ"},
    "letters": {2: "ж", 3: "ạ", 4: "𝐧"},
    "other": {1: ",", 2: "·", 3: "•", 4: "𝄀"},
    "": {3: "７", 4: "𝟕"},
}
"""A character of each class (`core/counting.py`) and length in UTF-8."""

_SIGNS = {"wide": {3: "、", 4: "𠀀"}, "marked": {3: "।"}, "old": {2: "͵", 3: "჻"}, "rare": {3: "꓾"}}
"""The same for those that are no letters: a sign before them is counted with them."""

_DIGITS = {"marked": {3: "०"}, "old": {2: "٠"}, "rare": {3: "၀"}}
"""The same for digits: letters before them are not."""

_ALIKE = {"wide": 512, "marked": 16, "old": 8, "rare": 512, "letters": 16}
"""How many letters from a filler on are of the same class and length: texts without Latin letters differ too."""

_KEPT = frozenset('\n\r\t "\\_-.\u200d\ufe0f')
_SCHEME = re.compile(r"https?://(?=[^\s/])")
_HEADING = re.compile(r"^#+", re.MULTILINE)
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[^"\d-]+|-)(?:(?<=")(\s*:))?', re.DOTALL)
_ESCAPE = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\.|[^\\]+", re.DOTALL)
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d*?)(0*))?([eE].*)?")
_HITS = frozenset({"url", "link", "href"})
"""Fields of a search's result that say that it has web hits."""

_TRIES = 1_000
"""How often a name is drawn that another one has already."""


class Placeholders:
    """Blanks texts out. `key` is for one export, and is forgotten with it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def text(self, text: str) -> str:
        """The text without what it says."""
        letters = Random(self._fingerprint(text))
        kept = {at for match in (*_SCHEME.finditer(text), *_HEADING.finditer(text)) for at in range(*match.span())}
        made: list[str] = []
        for kind, start, end in classes_of(text):
            piece = text[start:end]
            if kind == "word" and start not in kept and piece.islower():
                made += letters.choices(LETTERS, k=end - start)
            else:
                made += (
                    c if at in kept else _instead(c, letters, in_blob=kind == "blob")
                    for at, c in enumerate(piece, start)
                )
        return "".join(made)

    def name(self, name: str) -> str:
        """As `text`, for what has to be told apart: no two names become the same one, as far as there are others."""
        if name not in self._names:
            drawn = Random(self._fingerprint(name))
            tries = ("".join(_other(c, drawn) for c in self.text(name)) for _ in range(_TRIES))
            made = next((one for one in tries if one not in self._taken), self.text(name))
            self._taken.add(made)
            self._names[name] = made
        return self._names[name]

    def json(self, text: str) -> str:
        """JSON without what it says: of the same form, with other keys, strings and figures. Else as `text`."""
        try:
            value = decode(text)
        except (DecodeError, RecursionError):
            return self.text(text)
        if isinstance(value, str) and value.lstrip().startswith(('"', "{")):
            return encode_text(self.json(value))  # arguments that were encoded twice
        return "".join(self._token(*match.groups()) for match in _TOKEN.finditer(text))

    def _token(self, token: str, colon: str | None) -> str:
        if token.startswith('"'):
            inside, is_key = token[1:-1], colon is not None
            blanked = self.name if is_key else self.text
            made = inside if is_key and inside in _HITS else self._literal(inside, blanked)
            return f'"{made}"{colon or ""}'
        return _figure(token) if _NUMBER.fullmatch(token) else token

    def _fingerprint(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), "sha256")

    def _literal(self, literal: str, blanked: Callable[[str], str]) -> str:
        """The inside of a JSON string: what is escaped stays so."""
        parts = [(raw, str(decode(f'"{raw}"')) if raw[0] == "\\" else raw) for raw in _ESCAPE.findall(literal)]
        blank, at, made = blanked("".join(said for _, said in parts)), 0, []
        for raw, said in parts:
            piece, at = blank[at : at + len(said)], at + len(said)
            if raw.startswith("\\u"):
                piece = "".join(map(_escaped, said, piece, raw.split("\\u")[1:]))
            made.append(raw if raw[0] == "\\" and raw[1] != "u" else piece)
        return "".join(made)


def _other(character: str, drawn: Random) -> str:
    """A letter or figure in the place of a blank one, of more than those, so that there are enough names."""
    if character == "7":
        return drawn.choice(digits)
    if character.isascii() and character.isalpha():
        return drawn.choice(ascii_uppercase if character.isupper() else ascii_lowercase)
    return character


def _instead(character: str, letters: Random, *, in_blob: bool) -> str:
    """What stands for a character of its class."""
    if character in _KEPT or ord(character) < 32:
        return character
    if character.isascii() and character.isalpha():
        drawn = letters.choice(LETTERS)
        return drawn.upper() if character.isupper() else drawn
    if in_blob and not character.isdigit():
        return character
    kind, length = _kind(character), len(character.encode())
    if kind in _DIGITS and character.isdecimal():
        return _DIGITS[kind][length]
    if kind in _SIGNS and not character.isalnum():
        return _SIGNS[kind][length]
    filler = _FILLERS[kind][length]
    return chr(ord(filler) + letters.randrange(_ALIKE[kind])) if kind in _ALIKE and length < 4 else filler


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    """The class that a character has by itself."""
    [(kind, _, _)] = classes_of(character)
    return kind


def _escaped(said: str, blank: str, code: str) -> str:
    """A character as a JSON escape whose letters and figures are where those of `code` are, if there is one."""
    drawn = Random(blank)
    wanted = _kind(said), said.isalnum(), len(said.encode())
    for _ in range(_TRIES if len(said.encode()) < 4 else 0):
        made = "".join(drawn.choice("123456789" if c.isdigit() else "abcdef") for c in code)
        one = chr(int(made, 16))
        if not 0xD800 <= ord(one) < 0xE000 and wanted == (_kind(one), one.isalnum(), len(one.encode())):
            return f"\\u{made}"
    units = blank.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _figure(number: str) -> str:
    """A number of as many digits, also where a body writes it anew."""
    found = _NUMBER.fullmatch(number)
    assert found is not None
    sign, whole, fraction, zeros, exponent = found.groups()
    length = len(encode_text(decode(number)))
    made = number
    for digit in "123456789":
        point = "" if fraction is None else f".{digit * len(fraction)}{zeros}"
        made = f"{sign}{digit * len(whole)}{point}{exponent or ''}"
        if len(encode_text(decode(made))) == length:
            break
    return made
