"""Long values are deflated, and are read as they were written; so is what was stored before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.storage.packing import LEAST, packed, unpacked

texts = st.binary(max_size=200) | st.binary(max_size=50).map(lambda data: b"\1" + data) | st.text().map(str.encode)


@given(texts)
def test_what_is_unpacked_is_what_was_packed(plain: bytes) -> None:
    assert unpacked(packed(plain)) == plain
    assert len(packed(plain)) <= len(plain) or plain.startswith(b"\1")


def test_a_segment_takes_two_fifths_of_its_json() -> None:
    plain = (
        b'[{"id":"step_01m88fdwy6e954shc98rrxb7y8","kind":"step","lifetime":"session","source":'
        b'"step_01m88fdwy6e954shc98rrxb7y8","owner":"model:scripted","label":"Answer 6","letters":"A6","tokens":50,'
        b'"blocks":["95c370987194ce9beecf215ffd626575"]}]'
    )
    assert len(packed(plain)) < len(plain) * 0.4


def test_short_values_and_those_of_before_are_as_they_are() -> None:
    assert packed(b"[]") == b"[]"
    assert unpacked(b'{"model":"m","max_tokens":1,"stream":true}') == b'{"model":"m","max_tokens":1,"stream":true}'


@pytest.mark.parametrize("cut", [slice(0, -3), slice(0, 1)])
def test_a_damaged_value_is_told(cut: slice) -> None:
    stored = packed(b"a" * LEAST * 4 + bytes(range(256)))
    with pytest.raises(ValueError, match=r"end|incomplete|invalid"):
        unpacked(stored[cut])
