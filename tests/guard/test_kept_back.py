"""What a model was shown and nobody is to read is left out of its answer, however that comes in pieces (W8)."""

from __future__ import annotations

import codecs
from base64 import b32encode, b64encode, urlsafe_b64encode
from collections.abc import Callable
from string import ascii_lowercase
from textwrap import wrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.guard.kept_back import LEFT_OUT, RUN, KeptBack, Sieve
from lamella.guard.letters import fold, words_of

HINT = "Ask for clauses about the rent of mills, and who repairs the roof of the northern barn."


def sieved(text: str, kept: KeptBack, pieces: int = 1) -> str:
    sieve = Sieve(kept)
    out = [sieve.feed(text[at : at + pieces]) for at in range(0, len(text), pieces)]
    return "".join(out) + sieve.end()


CASES = {
    "all of it": (f"It says: {HINT}", f"It says: {LEFT_OUT}."),
    "a part of it": ("So, clauses about the rent of mills. Yes?", f"So, {LEFT_OUT}. Yes?"),
    "in other letters": ("CLAUSES\nabout – the “Rent” of   mílls!", f"{LEFT_OUT}!"),
    "five words in a row": ("Clauses about the rent of boats.", "Clauses about the rent of boats."),
    "words that tell nothing": ("and who of the about it", "and who of the about it"),
}


@pytest.mark.parametrize(("said", "shown"), CASES.values(), ids=CASES.keys())
def test_a_run_of_a_hint_is_left_out(said: str, shown: str) -> None:
    assert {sieved(said, KeptBack([HINT]), pieces) for pieces in (1, 3, 1000)} == {shown}


def test_a_short_hint_is_left_out_whole_and_a_name_is_not() -> None:
    kept = KeptBack(["Rents, barns, mills, geese", "Northern barn"])
    assert sieved("Rents, barns, mills, geese; the northern barn.", kept) == f"{LEFT_OUT}; the northern barn."


def test_what_the_user_said_may_be_said_again() -> None:
    kept = KeptBack([HINT], ["Tell me who repairs the roof of the northern barn!"])
    assert sieved("Who repairs the roof of the northern barn?", kept) == "Who repairs the roof of the northern barn?"


def test_only_what_may_become_a_run_waits() -> None:
    sieve = Sieve(KeptBack([HINT]))
    assert sieve.feed("Geese of Kyiv. ") == "Geese of Kyiv. "
    assert sieve.feed("Ask for cla") == "", "all of it may become a run"
    assert sieve.feed("y, clauses about the ") == "Ask for clay, "
    assert sieve.feed("moon, v") == "clauses about the moon, v"


TAGS = str.maketrans({chr(code): chr(0xE0000 + code) for code in range(32, 127)})
WIDE = str.maketrans({chr(code): chr(0xFEE0 + code) for code in range(33, 127)})
ALPHABET = ascii_lowercase
MOVED = str.maketrans(ALPHABET, ALPHABET[3:] + ALPHABET[:3])
TURNED = str.maketrans(ALPHABET, ALPHABET[::-1])
SIGNS = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
MORSE = dict(zip(ALPHABET, SIGNS.split(), strict=True))
LOOKING_ALIKE = str.maketrans("aceopABCEHKMOPTXy", "асеорАВСЕНКМОРТХу")
HIDDEN = {
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 after two letters": lambda text: b64encode(b"ab" + text.encode()).decode(),
    "base64 for addresses, in lines": lambda text: "\n".join(wrap(urlsafe_b64encode(text.encode()).decode(), 20)),
    "base64 of UTF-16": lambda text: b64encode(text.encode("utf-16-le")).decode(),
    "base64 of rot13": lambda text: b64encode(codecs.encode(text, "rot13").encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "hex with blanks": lambda text: text.encode().hex(" ").upper(),
    "hex with escapes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "hex as an array": lambda text: ", ".join(f"0x{byte:02x}" for byte in text.encode()),
    "escapes of Unicode": lambda text: "".join(f"\\u{ord(letter):04x}" for letter in text),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "reversed": lambda text: text[::-1],
    "words reversed": lambda text: " ".join(word[::-1] for word in text.split()),
    "rot13 reversed": lambda text: codecs.encode(text, "rot13")[::-1],
    "spaced": " ".join,
    "dotted": ".".join,
    "marked": "**".join,
    "in lines": "\n".join,
    "joined": lambda text: "".join(text.split()),
    "full width": lambda text: text.translate(WIDE),
    "look-alikes": lambda text: text.translate(LOOKING_ALIKE),
    "zero width": "\u200b".join,
    "soft hyphens": "\xad".join,
    "moved on by three": lambda text: text.translate(MOVED),
    "from z to a": lambda text: text.translate(TURNED),
    "from z to a, reversed": lambda text: text.translate(TURNED)[::-1],
    "words in reverse order": lambda text: " ".join(reversed(text.split())),
    "every second letter": lambda text: f"{text[::2]} | {text[1::2]}",
    "base32": lambda text: b32encode(text.encode()).decode(),
    "base32 in small letters": lambda text: b32encode(text.encode()).decode().lower().rstrip("="),
    "character codes": lambda text: " ".join(str(ord(letter)) for letter in text),
    "character codes as an array": lambda text: str([ord(letter) for letter in text]),
    "entities": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "entities in hex": lambda text: "".join(f"&#x{ord(letter):x};" for letter in text),
    "octal escapes": lambda text: "".join(f"\\{ord(letter):03o}" for letter in text),
    "ones and zeros": lambda text: " ".join(f"{ord(letter):08b}" for letter in text),
    "ones and zeros, joined": lambda text: "".join(f"{ord(letter):08b}" for letter in text),
    "groups of seven ones and zeros": lambda text: " ".join(f"{ord(letter):07b}" for letter in text),
    "Morse": lambda text: " ".join(MORSE[letter] for letter in text.lower() if letter in MORSE),
    "quoted-printable": lambda text: "".join(f"={byte:02X}" for byte in text.encode()),
    "base64, reversed": lambda text: b64encode(text.encode()).decode()[::-1],
    "base64 of the reversed text": lambda text: b64encode(text[::-1].encode()).decode(),
    "base64 twice": lambda text: b64encode(b64encode(text.encode())).decode(),
    "base64 of base64, reversed": lambda text: b64encode(b64encode(text.encode())[::-1]).decode(),
    "base64 of hex": lambda text: b64encode(text.encode().hex().encode()).decode(),
    "hex of base64": lambda text: b64encode(text.encode()).hex(),
    "base32 of base64": lambda text: b32encode(b64encode(text.encode())).decode(),
    "base64 of base32": lambda text: b64encode(b32encode(text.encode())).decode(),
    "base64 of character codes": lambda text: b64encode(" ".join(str(ord(one)) for one in text).encode()).decode(),
    "character codes of base64": lambda text: " ".join(str(byte) for byte in b64encode(text.encode())),
    "base64 of letters moved on": lambda text: b64encode(text.translate(MOVED).encode()).decode(),
    "tags": lambda text: text.translate(TAGS),
    "tags between letters": lambda text: "".join(f"x{letter}" for letter in text.translate(TAGS)),
    "variants": lambda text: "x" + "".join(chr(0xE0100 + ord(letter)) for letter in text),
}  # type: dict[str, Callable[[str], str]]


@pytest.mark.parametrize("hide", HIDDEN.values(), ids=HIDDEN.keys())
def test_a_disguised_hint_does_not_leave(hide: Callable[[str], str]) -> None:
    kept = KeptBack([HINT])
    said = f"It says: {hide(HINT)} Geese, 7."
    shown = {sieved(said, kept, pieces) for pieces in (1, 7, 10_000)}
    [one] = shown
    assert hide(HINT) not in one
    visible = [letter for letter in hide(HINT) if letter.isalnum()]
    assert LEFT_OUT in one or not visible or visible.count("x") == len(visible)
    assert len(one) < 70 + visible.count("x"), "at most a few letters before and after the runs are left"
    assert one.startswith("It says:")
    assert one.endswith(" Geese, 7.")


ORDINARY = {
    "code": "```python\nkey = base64.b64decode('aGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXN0IG9mIHRoZSBzaWV2ZQ==')\n```",
    "a hash": "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "a log": "2026-11-24T20:00:01Z INFO lamella.llm \u2500 \x1b[31mfailed\x1b[0m 0x7ffe %2F%20 ----------------",
    "German": "Wer repariert das Dach der nördlichen Scheune? Das weiß ich nicht; fragen Sie die Müllerin.",
    "Persian": "می\u200cخواهم کتاب\u200cها را بخوانم.",
    "Japanese": "北の納屋の屋根は誰が直すのですか。葛\U000e0100城。",
    "emoji": "👩\u200d👩\u200d👧 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f ❤\ufe0f 🇩🇪",
}


@pytest.mark.parametrize("said", ORDINARY.values(), ids=ORDINARY.keys())
def test_an_ordinary_answer_passes_unchanged_and_promptly(said: str) -> None:
    sieve, waiting, out = Sieve(KeptBack([HINT])), [], ""
    for at, character in enumerate(said):
        out += sieve.feed(character)
        waiting.append(at + 1 - len(out))
    assert out + sieve.end() == said
    assert max(waiting) <= 16, "characters that waited"
    assert sum(waiting) <= 4 * len(said), "of which most were through after a few"


HINT_WORDS = [word.text for word in words_of(fold(HINT))]
SAID = st.lists(st.sampled_from([*HINT.split(), "moon", "x-ray", "\n", "日本", "…", "a"]), max_size=40).map(" ".join)


@given(SAID, st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_no_run_is_left_and_pieces_change_nothing(said: str, pieces: int) -> None:
    kept = KeptBack([HINT])
    shown = sieved(said, kept, pieces)
    assert shown == sieved(said, kept, 1000)
    keys = [word.text for word in words_of(fold(shown))]
    assert not any(tuple(keys[at : at + RUN]) in kept.runs for at in range(len(keys)))
    if LEFT_OUT not in shown:
        assert shown == said
