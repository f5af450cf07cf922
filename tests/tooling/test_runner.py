"""The calls of one step: together, each with its limit, and every failure is a result that the model can act on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

import pytest

from lamella.core.errors import ToolFailed
from lamella.core.messages import ToolCall, ToolResult
from lamella.core.prompt import ToolSpec
from lamella.core.records import Caller
from lamella.tooling.runner import ToolRunner
from lamella.tooling.tool import Invocation, Registry, ToolKind, ToolOutput, ToolScope

pytestmark = pytest.mark.anyio

SCOPE = ToolScope(Caller("user_ann"), "conv_1", ())
Work = Callable[[Invocation], Awaitable[str]]


class Doing:
    """A tool that does what a function says."""

    kind = ToolKind.OTHER

    def __init__(self, name: str, work: Work, timeout: float = 5.0) -> None:
        self.spec = ToolSpec(name, "Does it.", '{"type":"object"}')
        self.timeout = timeout
        self._work = work

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        assert scope is SCOPE
        return await self._work(call)


async def echo(call: Invocation) -> str:
    return str(call.arguments.get("say"))


async def hang(call: Invocation) -> str:
    await asyncio.Event().wait()
    return ""


async def crash(call: Invocation) -> str:
    raise RuntimeError("secret of the server in /etc/passwd")


async def fail(call: Invocation) -> str:
    raise ToolFailed("The library is closed. Try again tomorrow.")


async def run(
    calls: list[ToolCall], *tools: Doing, malformed: Mapping[str, str] | None = None
) -> tuple[tuple[ToolResult, ...], list[str]]:
    """The results, and the call ids in the order in which they arrived."""
    arrived: list[str] = []
    runner = ToolRunner(Registry(tools))
    results = await runner.run(calls, SCOPE, malformed or {}, lambda result, _: arrived.append(result.call_id))
    return results, arrived


async def test_results_stand_in_call_order_and_are_told_as_they_arrive() -> None:
    seconds = {"c1": 0.09, "c2": 0.0, "c3": 0.045}

    async def slowly(call: Invocation) -> str:
        await asyncio.sleep(seconds[call.id])
        return call.id

    calls = [ToolCall(id, "slowly", "{}") for id in seconds]
    results, arrived = await run(calls, Doing("slowly", slowly))
    assert [(result.call_id, result.content) for result in results] == [(id, id) for id in seconds]
    assert arrived == ["c2", "c3", "c1"]


async def test_calls_run_together() -> None:
    meeting = asyncio.Barrier(8)

    async def meet(call: Invocation) -> str:
        await meeting.wait()
        return "met"

    results, _ = await run([ToolCall(f"c{n}", "meet", "{}") for n in range(8)], Doing("meet", meet))
    assert {result.content for result in results} == {"met"}


async def test_every_failure_is_a_result_and_spares_the_others() -> None:
    calls = [
        ToolCall("c1", "echo", '{"say":"one"}'),
        ToolCall("c2", "nothing", "{}"),
        ToolCall("c3", "crash", "{}"),
        ToolCall("c4", "fail", "{}"),
        ToolCall("c5", "echo", "{}"),
        ToolCall("c6", "hang", "{}"),
        ToolCall("c7", "echo", '{"say":"seven"}'),
    ]
    tools = [Doing("echo", echo), Doing("crash", crash), Doing("fail", fail), Doing("hang", hang, timeout=0.05)]
    results, _ = await run(calls, *tools, malformed={"c5": '{"say": "fi'})
    assert [(result.is_error, result.content) for result in results] == [
        (False, "one"),
        (True, "There is no tool named nothing. There are: crash, echo, fail, hang."),
        (True, "crash failed."),
        (True, "The library is closed. Try again tomorrow."),
        (True, 'The arguments are not a JSON object: {"say": "fi'),
        (True, "hang gave no result within 0.05 s and was cut off."),
        (False, "seven"),
    ]


async def test_a_tool_that_takes_too_long_is_cancelled() -> None:
    ended = asyncio.Event()

    async def watch(call: Invocation) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return ""

    began = monotonic()
    results, _ = await run([ToolCall("c1", "watch", "{}")], Doing("watch", watch, timeout=0.05))
    assert results[0].is_error
    assert ended.is_set()
    assert monotonic() - began < 5


async def test_a_tool_that_does_not_let_itself_be_cut_off_is_left_behind() -> None:
    release = asyncio.Event()

    async def stubborn(call: Invocation) -> str:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()
        raise RuntimeError("too late")

    [result], _ = await run([ToolCall("c1", "stubborn", "{}")], Doing("stubborn", stubborn, timeout=0.05))
    assert result.content == "stubborn gave no result within 0.05 s and was cut off."
    release.set()


async def test_a_time_out_of_its_own_is_not_called_ours() -> None:
    async def late(call: Invocation) -> str:
        raise TimeoutError

    [result], _ = await run([ToolCall("c1", "late", "{}")], Doing("late", late))
    assert result.content == "late failed."


async def test_a_tool_that_cancels_itself_ends_nothing_else() -> None:
    async def give_up(call: Invocation) -> str:
        raise asyncio.CancelledError

    calls = [ToolCall("c1", "give_up", "{}"), ToolCall("c2", "echo", '{"say":"two"}')]
    results, _ = await run(calls, Doing("give_up", give_up), Doing("echo", echo))
    assert [result.content for result in results] == ["give_up gave up.", "two"]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "odd gave something that is no text."),
        (7, "odd gave something that is no text."),
        (ToolOutput(b"x"), "odd gave something that is no text."),  # type: ignore[arg-type]
        ("a\ud800b\0c", "a�b�c"),
        ("\ud83d\ude00", "😀"),
    ],
)
async def test_what_no_wire_takes_is_no_result(given: Any, shown: str) -> None:
    async def odd(call: Invocation) -> str:
        return given  # type: ignore[no-any-return]

    [result], _ = await run([ToolCall("c1", "odd", "{}")], Doing("odd", odd))
    assert result.content == shown


async def test_a_step_that_is_cancelled_cancels_its_calls() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def watch(call: Invocation) -> str:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return ""

    step = asyncio.create_task(run([ToolCall("c1", "watch", "{}")], Doing("watch", watch)))
    await began.wait()
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert ended.is_set()


async def test_long_nonsense_is_not_repeated_in_full() -> None:
    [result], _ = await run([ToolCall("c1", "echo", "{}")], Doing("echo", echo), malformed={"c1": "x" * 100_000})
    assert len(result.content) < 300


def test_tools_are_told_sorted_by_name() -> None:
    registry = Registry([Doing("b", echo), Doing("a", echo), Doing("c", echo)])
    assert [spec.name for spec in registry.specs()] == ["a", "b", "c"]
    assert registry.find("d") is None
    assert not registry.is_search("a")
