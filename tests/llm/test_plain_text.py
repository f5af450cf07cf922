"""Whatever a provider's JSON holds can be stored and sent on."""

from __future__ import annotations

import pytest

from lamella.llm.plain_text import plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("Zürich 日本 😀", "Zürich 日本 😀"),
        ("half \ud83d and on", "half \ufffd and on"),
        ("\ude00 first", "\ufffd first"),
        ("pair \ud83d\ude00", "pair 😀"),
    ],
)
def test_lone_surrogates_become_the_replacement_character(text: str, expected: str) -> None:
    assert plain(text) == expected
    plain(text).encode()
