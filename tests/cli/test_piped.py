"""A pipe into `lamella chat`: commands at its beginning run in order, the rest is one message, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lamella.cli.piped import TypedInput
from lamella.core.errors import InvalidRequest

from .program import run
from .test_chat_commands import _environment

USAGES = {"status": "/status", "new": "/new", "resume": "/resume [NUMBER | TEXT]", "abort": "/abort"}


def piped(data: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("chat", "--data", str(data), *arguments, said=text, environment=_environment())


def sent(done: subprocess.CompletedProcess[str]) -> list[Any]:
    """What was said and run, as the packets tell it: names of commands, and the text of turns."""
    found: list[Any] = []
    for packet in map(json.loads, done.stdout.splitlines()):
        if packet["type"] == "command":
            found.append(f"/{packet['name']} {packet['argument']}".strip())
        elif packet["type"] == "turn.started":
            found.append("turn")
    return found


def test_commands_at_the_beginning_run_and_the_rest_is_one_message(tmp_path: Path) -> None:
    done = piped(tmp_path, "\ufeff/status\n\n/new\r\nHello there,\nwhat is\n/status about?\n", "--json")
    assert done.returncode == 0, done.stderr
    assert sent(done) == ["/status", "/new", "turn"]
    packets = map(json.loads, done.stdout.splitlines())
    conversation = next(packet["conversation_id"] for packet in packets if packet["type"] == "turn.started")
    listed = piped(tmp_path, "/status\n", "-c", conversation)
    assert "2 messages in the window" in listed.stdout, "the rest is one question with its answer"


def test_an_argument_that_is_a_command_runs_before_what_is_piped(tmp_path: Path) -> None:
    done = piped(tmp_path, "What is this?\nAnd that?\n", "--json", "/new")
    assert (done.returncode, sent(done)) == (0, ["/new", "turn"])


def test_a_command_that_fails_keeps_the_rest_from_being_sent_and_says_so(tmp_path: Path) -> None:
    done = piped(tmp_path, "/status\n/resume 7\nWhat is this?\nAnd that?\n", "--json")
    assert done.returncode == 2
    assert sent(done) == ["/status"]
    assert "Not sent, because an earlier message failed: “What is this?”" in done.stderr
    assert "no session 7" in done.stderr


@pytest.mark.parametrize("first", ["/statsu", "/abort please do not", "/prune-tools"])
def test_nothing_runs_when_a_line_at_the_beginning_is_no_command(tmp_path: Path, first: str) -> None:
    done = piped(tmp_path, f"/new\n{first}\nWhat is this?\n", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "To send it as text" in done.stderr


@pytest.mark.parametrize("text", ["/status\nWhat is this?", "/abort please do not"])
def test_an_argument_with_a_command_and_more_is_refused(tmp_path: Path, text: str) -> None:
    for through in ("", "And that?"):
        done = piped(tmp_path, through, "--json", text)
        assert (done.returncode, done.stdout) == (2, "")
        assert "nothing was run" in done.stderr


@pytest.mark.parametrize(
    ("written", "messages"),
    [
        (TypedInput("", "/usr/bin/env python\nprint(1)\n"), ["/usr/bin/env python\nprint(1)"]),
        (TypedInput("", "//new\nfoo"), ["//new\nfoo"]),
        (TypedInput("", "Hello\n/new\n"), ["Hello\n/new"]),
        (TypedInput("Explain:", "/new\nfoo"), ["Explain:\n\n/new\nfoo"]),
        (TypedInput("/etc/hosts says:", "/new"), ["/etc/hosts says:\n\n/new"]),
        (TypedInput("/status", ""), ["/status"]),
        (TypedInput("", " /status \n  /new\n\n  indented\n rest \n"), ["/status", "/new", "indented\n rest"]),
        (TypedInput("", "/resume the ships\n\n"), ["/resume the ships"]),
    ],
)
def test_what_an_argument_and_a_pipe_come_to(written: TypedInput, messages: list[str]) -> None:
    assert list(written.in_order(USAGES, files=False)) == messages


def test_files_go_with_a_message_and_not_with_a_command() -> None:
    assert TypedInput("", "/new\nRead it.").in_order(USAGES, files=True) == ("/new", "Read it.")
    with pytest.raises(InvalidRequest, match="takes no files"):
        TypedInput("", "/new\n/status\n").in_order(USAGES, files=True)
