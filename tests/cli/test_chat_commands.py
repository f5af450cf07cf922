"""`lamella chat`: the same commands as everywhere, as one message and at the prompt."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from lamella.app.app import LOCAL_OWNER, open_app
from lamella.core.decisions import Decision
from lamella.core.models import EFFORT_SUBJECT
from lamella.settings import read_settings

from .program import run

LAMELLA = str(Path(sys.executable).with_name("lamella"))


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("LAMELLA", "ANTHROPIC", "OPENAI"))}
    return own | {"LAMELLA_KEEP_RECENT_TOKENS": "10", "NO_COLOR": "1", "LAMELLA_DEBOUNCE_MS": "0"}


def chat(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One message."""
    return run("chat", "--data", str(data), *arguments, environment=_environment())


def at_prompt(data: Path, *lines: str) -> tuple[str, str]:
    """What a person at a terminal sees who types these lines, and what goes to standard error."""
    ours, theirs = pty.openpty()
    os.write(ours, "".join(f"{line}\n" for line in lines).encode() + b"\x04")
    try:
        done = run("chat", "--data", str(data), terminal=theirs, environment=_environment())
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    return done.stdout, done.stderr


def test_a_command_as_one_message(tmp_path: Path) -> None:
    found = chat(tmp_path, "/help")
    assert found.returncode == 0
    assert "/compact [focus]: summarise old turns" in found.stdout
    [line] = chat(tmp_path, "--json", "/status").stdout.splitlines()
    packet = json.loads(line)
    assert (packet["type"], packet["name"], packet["data"]["messages"]) == ("command", "status", 0)
    wrong = chat(tmp_path, "/stauts")
    assert wrong.returncode == 2
    assert "Did you mean /status?" in wrong.stderr


def test_commands_at_the_prompt(tmp_path: Path) -> None:
    """A compaction that was asked for is waited for before the terminal leaves, and told."""
    said, told = at_prompt(
        tmp_path, "Hello there. " + "Some words. " * 90, "And how does this work?", "/stauts", "/status", "/compact"
    )
    assert "in the window" in said
    assert "Summarising 1 of 2 turns (" in said
    assert "Did you mean /status?" in told
    assert "Compacted (" in told


def test_lines_typed_during_an_answer_wait_and_are_answered_in_order(tmp_path: Path) -> None:
    said, told = at_prompt(tmp_path, "Hello there.", "What can you do?", "/new", "Hello again.")
    assert "[1 in the queue." in told
    assert "[3 in the queue." in told
    assert said.count("Session 2 begins") == 1
    _, _, after = said.partition("Session 2 begins")
    assert len(after.splitlines()) > 3


async def _decisions(data: Path, conversation: str) -> list[Decision]:
    async with open_app(read_settings(data=data)) as app:
        return [stored.decision for stored in await app.store.conversations.decisions(LOCAL_OWNER, conversation)]


def test_an_effort_is_of_the_messages_of_this_sitting(tmp_path: Path) -> None:
    first = chat(tmp_path, "--json", "--effort", "4096", "Hello there.")
    conversation = json.loads(first.stdout.splitlines()[0])["conversation_id"]
    assert chat(tmp_path, "--effort", "off", "-c", conversation, "And now?").returncode == 0
    changes = [made for made in asyncio.run(_decisions(tmp_path, conversation)) if made.subject == EFFORT_SUBJECT]
    assert [(made.numbers["before"], made.numbers["after"]) for made in changes] == [(0, 4096), (4096, 0)]
    wrong = chat(tmp_path, "--effort", "much", "Hello there.")
    assert wrong.returncode == 2
    assert "off, low, medium, high or a number of tokens" in wrong.stderr
