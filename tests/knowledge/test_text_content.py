"""Bytes to text, and text to its stored form."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.knowledge.text_content import decode, normalise, one_line

RUSSIAN = "Привет, мир. Это проверка кодировки."
UKRAINIAN = "Доброго ранку, це перевірка кодування тексту."
GREEK = "Καλημέρα κόσμε, αυτή είναι μια δοκιμή."
FRENCH = "Café über señor, naïve façade — “quoted”."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (FRENCH, "utf-8"),
        (FRENCH, "utf-8-sig"),
        (FRENCH, "utf-16"),
        (RUSSIAN, "utf-16"),
        (FRENCH, "utf-32"),
        (FRENCH, "cp1252"),
        (RUSSIAN, "cp1251"),
        (UKRAINIAN, "cp1251"),
        ("plain words", "utf-16-le"),
        ("plain words", "utf-16-be"),
        ("\x1b[31mred\x1b[0m line", "utf-8"),
    ],
)
def test_text_in_these_encodings_is_read(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["shift_jis", "euc-jp", "gbk", "koi8-r", "windows-1253"])
def test_a_page_that_names_its_encoding_is_read_in_it(encoding: str) -> None:
    words = {"koi8-r": RUSSIAN, "windows-1253": GREEK}.get(encoding, "日本国")
    page = f'<html><meta charset="{encoding}"><p>{words}'
    assert decode(page.encode(encoding)) == page


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)),
        b"\0" * 400,
        b"\xff\xfe\x00\xd8\x00\xd8",
        FRENCH.encode("cp1252") + b"\x01",
        GREEK.encode("cp1253"),
        RUSSIAN.encode("koi8-r"),
        b'<meta charset="unicode_escape">\xff\\u0041',
        b'<meta charset="zlib">\xff',
    ],
)
def test_anything_else_is_no_text(data: bytes) -> None:
    text = decode(data)
    assert text is None or "charset" in text  # an unknown name is passed over, never looked up


@given(st.binary(max_size=300))
def test_no_bytes_break_it(data: bytes) -> None:
    text = decode(data)
    assert text is None or normalise(text).encode().decode() == normalise(text)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a\r\nb\rc\x85d", "a\nb\nc\nd"),
        ("a\x00b\x07c\x1b[0m\x7f\ufeff\ufffe", "abc[0m"),
        ("tab\tpage\fend", "tab\tpage\fend"),
        ("Cafe\u0301", "Café"),
        ("a\n\n\n\nb", "a\n\n\n\nb"),
        ("a\n\n\n\n\nb", "a\n\n\n\nb"),
        ("a\n \n\t\n\r\n\n\n  b", "a\n\n\n\n  b"),
        ("a\ud800b", "ab"),
    ],
)
def test_the_stored_form(text: str, stored: str) -> None:
    assert normalise(text) == stored


@given(st.text(alphabet=st.sampled_from("ab \n\t\f\r\x00\x07e\u0301\ud800\u00e9\ufeff")))
def test_the_stored_form_is_stable_and_clean(text: str) -> None:
    stored = normalise(text)
    assert normalise(stored) == stored
    assert unicodedata.is_normalized("NFC", stored)
    assert not any(unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t\f" for letter in stored)
    assert "\n\n\n\n\n" not in stored


@pytest.mark.parametrize(
    ("title", "line"),
    [("  A\n\ttitle\x00 ", "A title"), ("", None), (None, None), (" \x07 ", None), ("x" * 400, "x" * 300)],
)
def test_a_title_is_one_line(title: str | None, line: str | None) -> None:
    assert one_line(title) == line
