"""Whatever a provider's JSON holds can be stored and sent on, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from lamella.llm.fields import count_of, index_of, plain


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


@pytest.mark.parametrize("value", [None, 1, True, b"bytes", ["text"], {"text": "text"}])
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="a text was expected"):
        plain(value)


@pytest.mark.parametrize("value", [None, -1, True, 1.5, "1", [0]])
def test_what_numbers_no_block_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="the number of a block was expected"):
        index_of(value)
    assert index_of(0) == 0


@pytest.mark.parametrize("value", [None, -1, True, 1.5, "12", [12]])
def test_a_counter_that_is_none_stays_as_it_was(value: Any) -> None:
    reported = {"tokens": value}
    assert count_of(reported, "tokens") == 0
    assert count_of(reported, "tokens", 7) == 7
    assert count_of({}, "tokens", 7) == 7
    assert count_of({"tokens": 12}, "tokens", 7) == 12
