"""What the gateway adds to a body stands between the caller's own letters: held against the letters themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.json import decode_mended, decode_object, elements, encode, members, with_field
from lamella.core.prompt import Marker, Ttl
from lamella.gateway.additions import with_markers, with_usage, without_own_seals
from lamella.gateway.canonical import OWN_SEAL, wrapped_seal
from lamella.gateway.dialects import Dialect, read
from lamella.gateway.relay import with_model
from lamella.server.testing import served

from .conftest import settings_of
from .upstream_server import upstream_server

LETTERS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
"""A text's letters without the space between them."""

SPACE = st.sampled_from(["", "", " ", "\n", "\t ", "  \r\n"])
NUMBERS = st.sampled_from(["0", "-0", "1.0", "1.50", "1e5", "1E+2", "-2.5e-3", "12345678901234567890123", "0.1"])
STRINGS = st.sampled_from(
    [
        '"A"',
        '"\\u0041"',
        '"\\ud83d\\ude00"',
        '"😀 café"',
        '"a\\/b\\\\"',
        '"{\\"model\\": 1}"',
        '"]}"',
        '""',
        '"' + "x" * 300 + '"',
    ]
)
NAMES = st.sampled_from(['"a"', '"b"', '"\\u0061"', '"model"', '"stream_options"', '"messages"', '"of tomorrow"'])


def spaced(pieces: list[str], spaces: list[str]) -> str:
    return "".join(piece + spaces[n % len(spaces)] for n, piece in enumerate(pieces))


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects as texts; names come twice."""
    fields = st.lists(st.tuples(NAMES, values), max_size=5)

    def made(told: tuple[list[tuple[str, str]], list[str]]) -> str:
        pieces = ["{"]
        for n, (name, value) in enumerate(told[0]):
            pieces += [*([","] if n else []), name, ":", value]
        return spaced([*pieces, "}"], told[1])

    return st.tuples(fields, st.lists(SPACE, min_size=1, max_size=4)).map(made)


def lists(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def made(told: tuple[list[str], list[str]]) -> str:
        pieces = ["["]
        for n, value in enumerate(told[0]):
            pieces += [*([","] if n else []), value]
        return spaced([*pieces, "]"], told[1])

    return st.tuples(st.lists(values, max_size=4), st.lists(SPACE, min_size=1, max_size=4)).map(made)


ATOMS = st.one_of(NUMBERS, STRINGS, st.sampled_from(["true", "false", "null"]))
VALUES = st.recursive(ATOMS, lambda inner: st.one_of(objects(inner), lists(inner)), max_leaves=12)
BODIES = st.one_of(objects(VALUES), objects(ATOMS))


def letters(data: bytes) -> list[bytes]:
    return LETTERS.findall(data)


@given(BODIES)
def test_the_places_of_fields_are_theirs(text: str) -> None:
    data = text.encode()
    found = members(data)
    pieces = [b"{"]
    for number, (name, (start, end)) in enumerate(found):
        pieces += [*([b","] if number else []), encode(name), b":", *letters(data[start:end])]
    told = [encode(decode_object(b'{"x":%b}' % one)["x"]) if one.startswith(b'"') else one for one in letters(data)]
    mine = [encode(decode_object(b'{"x":%b}' % one)["x"]) if one.startswith(b'"') else one for one in [*pieces, b"}"]]
    assert mine == told
    whole = {name: decode_object(b'{"x":%b}' % data[start:end])["x"] for name, (start, end) in found}
    assert whole == decode_object(data)


@given(lists(VALUES))
def test_the_places_of_elements_are_theirs(text: str) -> None:
    data = text.encode()
    assert [decode_object(b'{"x":%b}' % data[start:end])["x"] for start, end in elements(data)] == (
        decode_object(b'{"x":%b}' % data)["x"]
    )


@given(BODIES)
def test_a_field_is_replaced_or_added_and_no_other_letter_changes(text: str) -> None:
    data = text.encode()
    changed = with_field(data, "model", b'"another"')
    spans = [span for name, span in members(data) if name == "model"]
    if not spans:
        end = data.rindex(b"}")
        assert changed[: len(data[:end])] == data[:end]
        added = letters(changed)[len(letters(data)) - 1 : -1]
        assert added in ([b",", b'"model"', b":", b'"another"'], [b'"model"', b":", b'"another"'])
    for start, end in reversed(spans):
        data = data[:start] + b'"another"' + data[end:]
    assert not spans or changed == data
    assert decode_object(changed)["model"] == "another"
    assert with_model(changed, "another") == changed, "the same again"


@given(BODIES)
def test_usage_is_asked_for_and_no_other_letter_changes(text: str) -> None:
    data = text.encode()
    changed = with_usage(data)
    asked = decode_object(changed)
    before = decode_object(data)
    assert asked.pop("stream_options")["include_usage"] is True  # type: ignore[index,call-overload]
    before.pop("stream_options", None)
    assert asked == before
    if b'stream_options"' not in data:
        added = b'"stream_options":{"include_usage":true}'
        assert changed.replace(b"," + added, b"").replace(added, b"") == data
    assert with_usage(changed) == changed


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","messages":[1],"messages": [ {"role":"user","content":"Hi","content": [ {"text" : "A\\u0041",'
        b'"type":"text"} ] } ] , "n":1e5}',
        b' {"system" : "S\\u0061y" , "messages":[{"role":"user","content":"Hi"}],"a":-0,"b":1.0}\n',
        b'{"tools":[{"name":"a","x":12345678901234567890123},{}],"messages":[{"content":[{"type":"text","text":"x"}]}]}',
    ],
)
def test_a_marker_stands_between_the_callers_letters(body: bytes) -> None:
    window = read(Dialect.MESSAGES, decode_object(body))
    for index, block in enumerate(window.blocks):
        marked = with_markers(body, window, [Marker(index, Ttl.ONE_HOUR, "test")])
        control = b'"cache_control":{"type":"ephemeral","ttl":"1h"}'
        assert marked.count(control) == 1
        plain = marked.replace(b"," + control, b"").replace(control, b"")
        if plain != body:  # a text became a block
            assert b'[{"type":"text","text":' in plain
            assert re.sub(rb'\[\{"type":"text","text":("[^"]*")\}\]', rb"\1", plain) == body
        again = read(Dialect.MESSAGES, decode_object(marked))
        assert [marker.index for marker in again.markers] == [index]
        assert again.blocks[index].digest == block.digest
        assert with_markers(body, window, [Marker(index, Ttl.ONE_HOUR, "test")]) == marked


HALF = b'{"model":"%b","stream":false,"messages":[{"role":"user","content":"cut \\ud83d"}],"input":"cut \\ude00!"}'


def test_what_can_not_be_kept_of_a_body_is_replaced() -> None:
    assert decode_mended(HALF)["input"] == "cut �!"
    assert decode_mended(b'\xef\xbb\xbf{"a": 1e999, "b": "\xff", "c": "\\ud83d\\ude00", "d": NaN}') == {
        "a": None, "b": "�", "c": "😀", "d": None,
    }  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "model"),
    [("messages", "claude-opus-5-5"), ("chat/completions", "gpt-6.1-terra"), ("responses", "gpt-6.1-terra")],
)
@pytest.mark.parametrize(
    "change", [lambda body: body, lambda body: b"\xef\xbb\xbf" + body, lambda body: body[:-1] + b',"seed":1e999}']
)
async def test_a_body_that_only_some_take_goes_on_as_it_is_and_is_recorded(
    tmp_path: Path, anyio_backend: str, path: str, model: str, change: Callable[[bytes], bytes]
) -> None:
    """JavaScript cuts a text within a pair of surrogates, and sends the half."""
    body = change(HALF % model.encode())
    async with (
        upstream_server() as upstream,
        served(settings_of(upstream.url, f"{upstream.url}/v1", tmp_path), checked=False) as (app, client),
    ):
        for _ in range(2):
            assert (await client.http.post(f"/v1/{path}", content=body)).status_code == 200
        await app.gateway.recorder.drain()
        assert sum(line["requests"] for line in (await client.get("/lines"))["data"]) == 2
    assert [got.body for got in upstream.got] == [body, body]


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
async def test_a_text_that_can_not_be_read_keeps_nobody_from_a_key_of_the_cache(
    tmp_path: Path, anyio_backend: str, path: str
) -> None:
    body = (
        b'{"model":"gpt-6.1-terra","messages":[{"role":"user","content":"\xff"}],"input":[{"role":"user","x":"\xff"}]}'
    )
    async with (
        upstream_server() as upstream,
        served(settings_of(upstream.url, f"{upstream.url}/v1", tmp_path), checked=False) as (_, client),
    ):
        headers = {"authorization": f"Bearer {await client.set_up()}"}
        assert (await client.http.post(f"/v1/{path}", content=body, headers=headers)).status_code == 200
    assert upstream.got[0].body.startswith(body[:-1] + b',"prompt_cache_key":"')


SEALED: Any = {"type": "thinking", "thinking": "Hm", "signature": OWN_SEAL}
GENUINE: Any = {"type": "thinking", "thinking": "Hm", "signature": "EqQB"}
CARRIED: Any = {"type": "redacted_thinking", "data": wrapped_seal("rs_1", "enc")}
QUOTED: Any = {"type": "text", "text": f'A seal: "{OWN_SEAL}", and "signature"'}
ITEM: Any = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": OWN_SEAL}


def test_thinking_under_a_seal_of_ours_is_taken_out_and_nothing_else() -> None:
    def messages(*answers: list[Any]) -> bytes:
        said = [{"role": "user", "content": QUOTED["text"]}, *({"role": "assistant", "content": a} for a in answers)]
        return encode({"model": "m", "n": 1.50, "messages": said, "signature": OWN_SEAL})

    body = messages([GENUINE, SEALED, QUOTED, CARRIED], [SEALED], [QUOTED])
    assert without_own_seals(Dialect.MESSAGES, body) == messages([GENUINE, QUOTED], [QUOTED])
    for same in (messages([GENUINE], [QUOTED], []), b'{"messages": "x", "a": "lamella."}', b'{ "model" : "m" }'):
        assert without_own_seals(Dialect.MESSAGES, same) == same
    items = encode({"input": [ITEM, {**ITEM, "encrypted_content": "enc"}, QUOTED]})
    assert without_own_seals(Dialect.RESPONSES, items) == encode(
        {"input": [{**ITEM, "encrypted_content": "enc"}, QUOTED]}
    )
