"""Long results in whole turns: the beginning is shown, the rest is read on with `read_file`, and can be cited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lamella.app.app import SHIPPED_TOOLS
from lamella.core.json import encode_text
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, served
from lamella.settings import read_settings
from lamella.tooling.runner import MAX_KEPT, MAX_SHOWN
from lamella.tooling.tool import Invocation, ToolKind, ToolScope

pytestmark = pytest.mark.anyio


class Lines:
    """Gives as many numbered lines as it is asked for."""

    spec = ToolSpec(
        "lines",
        "Lines.",
        '{"type":"object","properties":{"count":{"type":"integer","minimum":0}},"required":["count"]}',
    )
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return "\n".join(f"This is line {number}." for number in range(int(str(call.arguments["count"]))))


def lines(id: str, count: int) -> ToolCall:
    return ToolCall(id, "lines", f'{{"count":{count}}}')


def read(id: str, **arguments: Any) -> ToolCall:
    return ToolCall(id, "read_file", encode_text(arguments))


def results(packets: list[Object]) -> list[Object]:
    return [packet for packet in packets if packet["type"] == "tool.result"]


async def test_the_rest_of_a_long_result_can_be_read_and_cited_even_later(tmp_path: Path) -> None:
    model = ScriptedModel([calling(lines("c1", 9_000)), saying("Long.")])
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), tools=(Lines(), *SHIPPED_TOOLS)) as (
        _,
        client,
    ):
        conversation = await client.conversation()
        [long] = results(await client.send(conversation, "Go"))
        assert len(long["content"]) <= MAX_SHOWN
        assert "The whole is document 1: read on with read_file, file_id doc_" in long["content"]
        id = long["content"].partition("file_id ")[2].partition(",")[0]
        model.then(
            calling(read("c2", file_id=id, query="line 4711"), read("c3", file_id=id, offset=160_000)),
            saying("It is there [1]."),
        )
        packets = await client.send(conversation, "Where is 4711?")
        found, piece = (result["content"] for result in sorted(results(packets), key=lambda result: result["call_id"]))
        assert "This is line 4711." in found
        assert '"document":1' in found
        assert "characters 160000 to" in piece
        [source] = [packet for packet in packets if packet["type"] == "source"]
        assert (source["document"], source["title"], source["file_id"]) == (1, "Result of lines", None)


async def test_a_huge_result_is_kept_as_far_as_anybody_reads(tmp_path: Path) -> None:
    model = ScriptedModel([calling(lines("c1", MAX_KEPT // 10)), saying("Huge.")])
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), tools=(Lines(), *SHIPPED_TOOLS)) as (
        _,
        client,
    ):
        [huge] = results(await client.send(await client.conversation(), "Go"))
        assert len(huge["content"]) <= MAX_SHOWN
        assert f"of which the first {MAX_KEPT} are kept" in huge["content"]


ARGUMENTS = st.text(max_size=30) | st.sampled_from(
    [
        '{"a":' + "[" * 50_000 + "]" * 50_000 + "}",
        '{"count":1e999}',
        '{"count":NaN}',
        '{"count":"\\ud800"}',
        '{"\\u0000":1}',
        "[]",
        "null",
        '{"count":-1}',
        '{"count":true}',
        '{"count":1,"count":2}',
    ]
)


async def test_no_arguments_end_a_turn(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), tools=(Lines(), *SHIPPED_TOOLS)) as (
        _,
        client,
    ):
        taken: list[tuple[str, str]] = []

        @given(st.lists(st.tuples(st.sampled_from(["lines", "read_file", "no_tool"]), ARGUMENTS), max_size=3))
        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        def collect(calls: list[tuple[str, str]]) -> None:
            taken.extend(calls)

        collect()
        conversation = await client.conversation()
        for start in range(0, len(taken), 10):
            batch = taken[start : start + 10]
            calls = [ToolCall(f"c{start + n}", name, arguments) for n, (name, arguments) in enumerate(batch)]
            model.then(calling(*calls), saying("Done."))
            packets = await client.send(conversation, "Go")
            assert packets[-1]["status"] == "finished", batch
            assert len(results(packets)) == len(calls)
