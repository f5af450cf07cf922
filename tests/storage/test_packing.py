"""Long values are deflated, and are read as they were written; so is what was stored before."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql, sqlite

from lamella.context.system_prompt import STATIC_SECTIONS, static_text
from lamella.storage.columns import PackedText
from lamella.storage.packing import _DICTIONARIES, EARLIER, LEAST, NEWEST, packed, unpacked

SUMS = {EARLIER: 1232499681, NEWEST: 435482112}
"""The checksums of both dictionaries."""

FORMS = st.sampled_from([EARLIER, NEWEST])
begun = st.builds(bytes.__add__, FORMS, st.binary(max_size=50))
texts = st.binary(max_size=200) | begun | st.text().map(str.encode)


@given(texts, FORMS)
def test_what_is_unpacked_is_what_was_packed(plain: bytes, form: bytes) -> None:
    assert unpacked(packed(plain, form)) == plain
    assert len(packed(plain, form)) <= len(plain) or plain[:1] in (EARLIER, NEWEST)


def test_dictionaries_never_change() -> None:
    sums = {form: zlib.crc32(dictionary) for form, dictionary in _DICTIONARIES.items()}
    assert sums == SUMS, "what was packed with the one of before can't be read any more: add another"


def test_the_prompt_that_ships_takes_little() -> None:
    prompt = static_text(STATIC_SECTIONS).encode()
    assert len(packed(prompt)) < len(prompt) / 10
    assert len(packed(prompt, EARLIER)) > len(prompt) / 4


def test_postgresql_keeps_the_form_that_processes_of_an_earlier_version_read() -> None:
    text = "The prompt of a deployment, which is long enough to be packed. " * 3
    forms = [PackedText().process_bind_param(text, dialect()) for dialect in (sqlite.dialect, postgresql.dialect)]
    assert [form and form[:1] for form in forms] == [NEWEST, EARLIER]


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
