"""`read_file`: every character can be read, the words of a question find their passages, errors say what to do."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.errors import ToolFailed
from lamella.core.json import Json, decode_object
from lamella.core.messages import Attachment, ToolCall
from lamella.core.records import Caller
from lamella.tooling.runner import ToolRunner
from lamella.tooling.tool import Invocation, Registry, ToolScope
from lamella.tools.read_file import PIECE, WINDOW, ReadFile
from measures import loop_pauses

pytestmark = pytest.mark.anyio


def scope(text: str | None, reason: str | None = None) -> ToolScope:
    attachment = Attachment("file_1", 4, "plan.txt", "text/plain", 100, 50, text, reason)
    other = Attachment("file_2", 5, "other.txt", "text/plain", 10, 5, "Something else.")
    return ToolScope(Caller("user_ann"), "conv_1", (other, attachment))


async def read(text: str | None, **arguments: Json) -> list[Any]:
    invocation = Invocation("c1", {"file_id": "file_1", **arguments})
    found: Any = decode_object((await ReadFile().run(scope(text, "It is a scan."), invocation)).content)["documents"]
    return list(found)


@pytest.mark.parametrize(
    "text", ["", "Short.", "x" * 50_000, "A sentence. " * 4_000, "A line\n" * 8_000, "字。" * 9_000]
)
async def test_reading_on_gives_the_whole_text(text: str) -> None:
    seen, offset, readings = "", 0, 0
    while True:
        [piece] = await read(text, offset=offset)
        assert (piece["document"], piece["title"]) == (4, "plan.txt")
        assert len(piece["contents"]) <= PIECE
        seen += piece["contents"]
        readings += 1
        if "next_offset" not in piece:
            break
        assert piece["next_offset"] > offset
        offset = piece["next_offset"]
    assert seen == text
    assert readings <= 1 + 2 * len(text) // PIECE


@given(st.text(alphabet="ab .\n", max_size=60), st.integers(0, 60))
async def test_reading_begins_where_it_is_asked_to(text: str, offset: int) -> None:
    if offset > len(text):
        with pytest.raises(ToolFailed, match=f"between 0 and {len(text)}"):
            await read(text, offset=offset)
    else:
        [piece] = await read(text, offset=offset)
        assert piece["contents"] == text[offset:]


async def test_a_question_finds_the_passages_with_its_rarest_words() -> None:
    chosen = random.Random(3)
    words = [f"word{number}" for number in range(400)]
    filler = [" ".join(chosen.choices(words, k=200)) + " the and of" for _ in range(60)]
    filler[17] += " Der Schlüssel liegt unter der MATTE."
    filler[41] += " the key is under the mat"
    text = "\n".join(filler)
    found = await read(text, query="Where is the schlüssel? under the matte")
    assert any("unter der MATTE" in passage["contents"] for passage in found)
    assert len(found) <= PIECE // WINDOW
    assert [passage["document"] for passage in found] == [4] * len(found)
    starts = [int(passage["metadata"].split()[1]) for passage in found]
    assert starts == sorted(starts)
    for start, passage in zip(starts, found, strict=True):
        assert text[start : start + WINDOW] == passage["contents"]
    assert await read(text, query="Where is the schlüssel? under the matte") == found


async def test_a_question_in_chinese_finds_its_passage() -> None:
    [passage] = await read("租客不得养蛇。押金为三个月的租金。", query="押金是多少？")
    assert "押金为三个月的租金" in passage["contents"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"file_id": "file_9"}, "This conversation has no file file_9."),
        ({"file_id": ""}, "This conversation has no file ."),
        ({"offset": -1}, "offset must be between 0 and 11."),
        ({"offset": 12}, "offset must be between 0 and 11."),
        ({"query": "quantum"}, "No word of the query is in “plan.txt”. Read it from an offset instead."),
        ({"query": "?!"}, "No word of the query is in “plan.txt”. Read it from an offset instead."),
    ],
)
async def test_a_reading_that_cannot_be_says_why(arguments: dict[str, Json], message: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        await read("Some words.", **arguments)
    assert failed.value.message == message


@pytest.mark.parametrize(
    "arguments", ["{}", '{"file_id":1}', '{"file_id":"file_1","offset":"x"}', '{"file_id":"file_1","page":2}']
)
async def test_arguments_of_the_wrong_shape_are_told_to_the_model(arguments: str) -> None:
    runner = ToolRunner(Registry([ReadFile()]))
    [result] = await runner.run([ToolCall("c1", "read_file", arguments)], scope("Words."), {}, lambda *_: None)
    assert result.is_error
    assert "file_id (required): type string" in result.content


async def test_a_file_without_text_says_why() -> None:
    with pytest.raises(ToolFailed, match=r"“plan\.txt” could not be read: It is a scan\."):
        await read(None)


async def test_the_schema_is_that_of_the_arguments() -> None:
    schema = decode_object(ReadFile.spec.input_schema)
    assert set(msgspec.to_builtins(schema)["properties"]) == {"file_id", "offset", "query"}
    assert schema["required"] == ["file_id"]


async def test_a_question_to_a_large_file_holds_nobody_up() -> None:
    text = "A good many words stand here, and none of them matters. " * 80_000
    async with loop_pauses() as pauses:
        await read(text, query="matters")
    assert len(pauses) > 5
    assert sorted(pauses)[-2] < 0.2
