"""`lamella inspect`: a request's window on the terminal, from a data folder, from a running server, and in advance."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import lamella.cli.inspect  # noqa: F401 (registers the command)
from lamella.app.app import LOCAL_OWNER, open_app
from lamella.app.conversations import NewConversation
from lamella.chat import Message
from lamella.cli.failures import exit_code_of
from lamella.cli.main import cli
from lamella.core.errors import LamellaError
from lamella.settings import read_settings

LAMELLA = str(Path(sys.executable).with_name("lamella"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one conversation of the demonstration: two turns."""
    data = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patched:
        offline(patched)
        asyncio.run(_converse(data))
    return data


async def _converse(data: Path) -> None:
    async with open_app(read_settings(data=data)) as app:
        conversation = await app.conversations.create(LOCAL_OWNER, NewConversation())
        for text in ("Hello there.", "And how does this work?"):
            turn_id = await app.chat.sender.begin(LOCAL_OWNER, conversation.id, Message(text))
            async for _ in app.chat.stream(LOCAL_OWNER, turn_id):
                pass


def offline(patched: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LAMELLA_MODEL"):
        patched.delenv(name, raising=False)


def inspected(data: Path, *arguments: str, command: str = "inspect") -> Result:
    with pytest.MonkeyPatch.context() as patched:
        offline(patched)
        return CliRunner().invoke(cli, [command, *arguments, "--data", str(data)])


def failure(result: Result) -> LamellaError:
    assert isinstance(result.exception, LamellaError)
    return result.exception


def test_the_newest_request_is_shown_as_the_pages_drawer_shows_it(folder: Path) -> None:
    result = inspected(folder)
    assert result.exit_code == 0, result.exception
    text = result.stdout
    assert re.search(r"^req_\w+ · turn_\w+, step 0 · chat · 20", text)
    assert "\nmodel lamella-demo · layout lamella · markers by planner\nS U1 A1 U2\n" in text
    assert re.search(r"^S +▸System prompt +fixed +[\d,]+ +[\d,]+ +0 +0 +deployment +system_prompt$", text, re.MULTILINE)
    assert re.search(r"^U2 +▸Question 2 +turn +\d+ +0 +\d+ +0 +user +msg_\w+$", text, re.MULTILINE)
    assert re.search(r"^[\d,]+ of 184,000 tokens, \d\d% read from the cache · \d+ out · \$0\.\d+$", text, re.MULTILINE)
    assert "≈" not in text
    # How long it is kept depends on the seconds between the two turns.
    assert re.search(r"^Markers\n  after System prompt \((5m|1h)\): the end of what never changes$", text, re.MULTILINE)
    assert "\nNot in this request\n" in text
    assert "\n  agent: " in text
    shown = json.loads(inspected(folder, text.split()[0], "--json").stdout)
    assert shown["id"] == text.split()[0]
    assert [segment["letters"] for segment in shown["segments"] if segment["letters"]] == ["S", "U1", "A1", "U2"]
    assert {"zone", "owner", "source", "tokens", "measured", "read", "written", "fresh"} <= set(shown["segments"][0])
    assert {"kind", "why"} == set(shown["absent"][0])


def test_why_says_what_a_request_read_and_paid(folder: Path) -> None:
    request = inspected(folder).stdout.split()[0]
    said = inspected(folder, request, command="why").stdout
    bill = (
        r"\S+ of \S+ tokens were read from the cache \(\S+ predicted\), \d+ written, \d+ paid in full \(\$0\.\d{4}\)\."
    )
    assert re.fullmatch(rf"{bill} All that was cached was read\.\n", said)
    assert "There is no request req_gone" in failure(inspected(folder, "req_gone", command="why")).message


def test_a_preview_shows_what_a_message_would_send(folder: Path) -> None:
    text = inspected(folder, "--preview", "Is that all?").stdout
    assert text.startswith("not sent: this is what the message would send\n")
    assert "\nS U1 A1 U2 A2 U3\n" in text
    assert re.search(r"^≈[\d,]+ of 184,000 tokens, an estimate", text, re.MULTILINE)
    assert re.search(r"^U3 +▸Question 3 +turn +≈\d+ ", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["nonsense"], "“nonsense” is no id of a conversation or a request", 2),
        (["req_gone"], "req_gone", 2),
        (["req_1", "--preview", "x"], "takes a conversation", 2),
    ],
)
def test_what_cannot_be_shown_is_said(folder: Path, arguments: list[str], said: str, code: int) -> None:
    error = failure(inspected(folder, *arguments))
    assert said in error.message
    assert exit_code_of(error) == code


def test_an_empty_folder_says_how_to_begin(tmp_path: Path) -> None:
    assert failure(inspected(tmp_path)).hint == "Send a message with lamella chat."


def test_it_asks_the_server_that_holds_the_folder(folder: Path) -> None:
    with subprocess.Popen(
        [LAMELLA, "serve", "--port", "0", "--data", str(folder)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert "http://" in server.stdout.readline()
            done = subprocess.run(
                [LAMELLA, "inspect", "--data", str(folder)], capture_output=True, text=True, check=False, timeout=60
            )
        finally:
            server.terminate()
    assert done.returncode == 0, done.stderr
    assert "\nS U1 A1 U2\n" in done.stdout
