"""Calls that wait for the user, in the terminal: shown with their arguments, answered, refused where nobody sits."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from lamella.cli.approvals import NOBODY, CallQuestions
from lamella.core.packets import ToolApprovalPacket, ToolVerdictPacket, TurnFinished, UsageBody
from lamella.core.tokens import Usage

from .test_chat_commands import LAMELLA, _environment

pytestmark = pytest.mark.anyio

TOYS = Path(__file__).parents[1] / "tools" / "mcp" / "toy_server.py"
QUESTION = "May this run? y, or n and a reason:\n"


class Shop:
    """A server whose model can be made to call `add`, of an MCP server that asks before it adds."""

    def __init__(self, folder: Path, simulator: str) -> None:
        self.data = folder / "data"
        self._simulator = simulator
        toy = {"command": sys.executable, "args": [str(TOYS)], "approval": ["add"]}
        servers = folder / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {"toy": toy}}))
        self.environment = _environment() | {
            "ANTHROPIC_API_KEY": "test",
            "ANTHROPIC_BASE_URL": simulator,
            "LAMELLA_MCP_SERVERS": str(servers),
            "LAMELLA_TITLES": "off",
        }
        call = {"name": "toy__add", "id": "toolu_add", "arguments": {"a": 2, "b": 40}}
        self._post("replies", {"add": {"tool_calls": [call]}})

    def calls(self, *, add: bool) -> None:
        """Whether the model calls `add`, or answers."""
        self._post("settings", {"default_reply": "add" if add else None})

    def _post(self, path: str, body: dict[str, object]) -> None:
        httpx2.post(f"{self._simulator}/_sim/{path}", json=body, trust_env=False).raise_for_status()


@contextmanager
def process(*arguments: str, environment: dict[str, str] | None = None, first: str) -> Iterator[str]:
    """A process that runs meanwhile, by its first line, which begins so."""
    running = subprocess.Popen(
        arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        line = running.stdout.readline()
        assert line.startswith(first), line
        yield line
    finally:
        running.stdin.close()
        running.terminate()
        running.wait(timeout=60)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The shop, once its tools are there."""
    simulating = (sys.executable, "-m", "lamella_simulator", "--clock", "system", "--exit-with-stdin")
    with process(*simulating, first="{") as started:
        shop = Shop(tmp_path_factory.mktemp("shop"), json.loads(started)["simulator"])
        serving = (LAMELLA, "serve", "--port", "0", "--data", str(shop.data))
        with process(*serving, environment=shop.environment, first="Lamella") as line:
            url = f"http://127.0.0.1:{line.rsplit(':', 1)[1].strip()}/api/v1/mcp-servers"
            deadline = time.monotonic() + 60
            while not httpx2.get(url, trust_env=False).json()["data"][0]["connected"]:
                assert time.monotonic() < deadline, "the toy server does not connect"
                time.sleep(0.1)
            yield shop


@pytest.fixture
def calling(shop: Shop) -> Iterator[None]:
    """The model calls `add`."""
    shop.calls(add=True)
    yield
    shop.calls(add=False)


def packets_of(lines: Sequence[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines if line.startswith("{")]


def results(packets: Sequence[dict[str, object]]) -> list[tuple[object, object]]:
    return [(one["is_error"], one["content"]) for one in packets if one["type"] == "tool.result"]


@pytest.mark.parametrize(
    ("typed", "result"),
    [
        (["perhaps", "y"], (False, "42")),
        (["n, forty is too much"], (True, "forty is too much")),
    ],
)
@pytest.mark.usefixtures("calling")
def test_a_call_is_answered_at_the_terminal(shop: Shop, typed: Sequence[str], result: tuple[bool, str]) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [LAMELLA, "chat", "--json", "--data", str(shop.data), "Add two and forty"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=shop.environment,
    )
    os.close(theirs)
    try:
        assert process.stderr is not None
        assert process.stdout is not None
        said: list[str] = []
        for line in typed:
            while (told := process.stderr.readline()) != QUESTION:
                assert told, f"it ended without asking: {said}"
                said.append(told)
            shop.calls(add=False)
            os.write(ours, f"{line}\n".encode())
        found = packets_of(process.stdout.read().splitlines())
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert said.count('toy__add {"a":2,"b":40}\n') == len(typed)
    [(is_error, content)] = results(found)
    assert is_error is result[0]
    assert result[1] in str(content)


@pytest.mark.usefixtures("calling")
def test_where_nobody_sits_a_call_is_refused_and_that_is_said(shop: Shop) -> None:
    done = subprocess.run(
        [LAMELLA, "chat", "--json", "--data", str(shop.data), "Add two and forty"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=shop.environment,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert 'Refused, because the input is no terminal where you could be asked: toy__add {"a":2,"b":40}' in done.stderr
    found = results(packets_of(done.stdout.splitlines()))
    assert found[0][0]
    assert NOBODY in str(found[0][1])


class Recorder:
    """A door that writes down what was decided."""

    def __init__(self) -> None:
        self.decided: list[tuple[str, str, bool, str]] = []

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str) -> None:
        self.decided.append((turn_id, call_id, approved, reason))


def waiting(call: str, arguments: str = "{}") -> ToolApprovalPacket:
    return ToolApprovalPacket(turn_id="turn_1", call_id=call, name="delete", arguments=arguments)


async def test_calls_are_asked_about_one_after_the_other() -> None:
    door, told = Recorder(), list[str]()
    asking = CallQuestions(door, told.append, somebody=True)
    assert not await asking.answer("y"), "nothing waits: it is a message"
    for call in ("a", "b", "c", "d"):
        await asking.hear(waiting(call, json.dumps({"of": call})))
    assert len(told) == 1
    assert await asking.answer("maybe")
    assert not await asking.answer("/abort")
    assert await asking.answer(" YES ")
    assert 'delete {"of": "b"}' in told[-1]
    await asking.hear(ToolVerdictPacket(turn_id="turn_1", call_id="b", approved=True))
    assert await asking.answer("no: too late")
    assert door.decided == [("turn_1", "a", True, ""), ("turn_1", "c", False, "too late")]
    await asking.hear(TurnFinished(turn_id="turn_1", status="stopped", usage=UsageBody.of(Usage()), cost=0))
    assert not asking.waits
    assert not await asking.answer("y")


async def test_nothing_of_a_call_reaches_the_terminal_as_a_command_to_it() -> None:
    told = list[str]()
    await CallQuestions(Recorder(), told.append, somebody=True).hear(waiting("a", '{"path": "\x9b2J\u202eabc\n"}'))
    assert told[0].splitlines()[0] == 'delete {"path": "\\u009b2J\\u202eabc\\u000a"}'
