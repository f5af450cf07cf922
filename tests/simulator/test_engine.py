"""The caches of inference engines: any common token prefix, or whole blocks of tokens, the oldest out first."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella_simulator.cache.engine import common_length
from lamella_simulator.settings import Settings
from lamella_simulator.testing import EXACT, InProcess

from .texts import Json, assistant, tokens, user

pytestmark = pytest.mark.anyio
TOKENS = replace(EXACT, engine="tokens")
BLOCKS = replace(EXACT, engine="blocks")


async def reads(settings: Settings, *prompts: list[Json], **rules: str) -> list[int]:
    provider = InProcess(settings)
    return [(await provider.messages({"messages": p}, **rules)).usage["cache_read_input_tokens"] for p in prompts]


async def test_any_common_token_is_read_without_a_marker() -> None:
    shared = tokens(40)
    assert await reads(TOKENS, [user(shared + " blue")], [user(shared + " green")]) == [0, 40]


async def test_the_last_token_is_always_computed() -> None:
    assert await reads(TOKENS, [user(tokens(40))], [user(tokens(40))]) == [0, 39]
    assert await reads(BLOCKS, [user(tokens(48))], [user(tokens(48))]) == [0, 32]


async def test_whole_blocks_are_read() -> None:
    shared = tokens(40)
    assert await reads(BLOCKS, [user(shared + " blue")], [user(shared + " green")]) == [0, 32]
    wide = replace(BLOCKS, engine_block=8)
    assert await reads(wide, [user(shared + " blue")], [user(shared + " green")]) == [0, 40]


@pytest.mark.parametrize(("settings", "read"), [(TOKENS, [0, 0, 99]), (BLOCKS, [0, 0, 96])])
async def test_what_was_used_last_stays(settings: Settings, read: list[int]) -> None:
    small = replace(settings, engine_capacity=150)
    first, second = [user(tokens(100))], [user(tokens(100, "blue"))]
    assert await reads(small, first, second, second) == read
    assert (await reads(small, first, second, first))[2] < 60


@pytest.mark.parametrize("settings", [TOKENS, BLOCKS])
async def test_a_use_makes_it_the_last_to_go(settings: Settings) -> None:
    small = replace(settings, engine_capacity=224)
    first, second, third = ([user(tokens(96, word))] for word in ("red", "blue", "green"))
    assert (await reads(small, first, second, first, third, first))[4] >= 80
    assert (await reads(small, first, second, first, third, second))[4] <= 32


async def test_a_prompt_that_grows_is_held_once() -> None:
    small = replace(TOKENS, engine_capacity=240)
    other, grows = [user(tokens(100, "blue"))], [[user(tokens(size))] for size in (60, 100, 140)]
    assert (await reads(small, other, *grows, other))[4] == 99


async def test_the_end_of_a_prompt_goes_before_its_beginning() -> None:
    small = replace(BLOCKS, engine_capacity=96)
    long = [user(tokens(97))]
    assert (await reads(small, long, [user(tokens(32, "blue"))], long))[2] == 64


async def test_roles_and_models_are_part_of_the_prompt() -> None:
    marked = replace(TOKENS, message_overhead=4)
    said = [user(tokens(20)), assistant(tokens(20)), user("a")]
    asked = [user(tokens(20)), user(tokens(20)), user("a")]
    assert (await reads(marked, said, asked))[1] == 21
    assert (await reads(marked, said, [*said[:2], user("b")]))[1] == 49
    assert (await reads(marked, [user("a")], [user("b")]))[1] == 1
    provider = InProcess(TOKENS)
    await provider.messages({"messages": said})
    other = await provider.messages({"messages": said, "model": "claude-sonnet-5"})
    assert other.usage["cache_read_input_tokens"] == 0


async def test_all_wires_report_it() -> None:
    provider = InProcess(TOKENS)
    body: Json = {"messages": [{"role": "user", "content": tokens(40)}]}
    await provider.chat(body)
    assert (await provider.chat(body)).usage["prompt_tokens_details"]["cached_tokens"] == 39
    await provider.responses({"input": tokens(40)})
    usage = (await provider.responses({"input": tokens(40)})).usage
    assert (usage["input_tokens_details"]["cached_tokens"], usage["input_tokens"]) == (39, 40)


async def test_a_reset_empties_it() -> None:
    provider = InProcess(TOKENS)
    await provider.messages({"messages": [user(tokens(40))]})
    await provider.post("/_sim/reset", {})
    assert (await provider.messages({"messages": [user(tokens(40))]})).usage["cache_read_input_tokens"] == 0


@given(st.lists(st.integers(0, 2), max_size=12), st.lists(st.integers(0, 2), max_size=12))
@settings(max_examples=60)
def test_the_common_length_is_that_of_a_plain_loop(first: list[int], second: list[int]) -> None:
    plain = 0
    while plain < min(len(first), len(second)) and first[plain] == second[plain]:
        plain += 1
    assert common_length(array("I", first), array("I", second)) == plain
