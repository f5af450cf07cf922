"""A `lamella chat` that is refused leaves no empty conversation, and `lamella inspect` finds the newest request."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .program import run
from .test_chat_commands import _environment, at_prompt, chat


def lamella(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(*arguments, "--data", str(data), environment=_environment())


REFUSED = (
    ("--model", "nonsense", "Hello"),
    ("--model", "lamella-demo", "--model", "nonsense", "Hello"),
    ("--key", "nonsense", "Hello"),
    ("-f", "/nonexistent/file.txt", "Hello"),
    ("/stauts",),
    ("--effort", "much", "Hello"),
)


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda arguments: arguments[-2:][0])
def test_a_refused_chat_leaves_no_conversation(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    refused = chat(tmp_path, *arguments)
    assert refused.returncode != 0
    listed = lamella(tmp_path, "sessions", "list")
    assert "There is no conversation yet." in listed.stderr
    assert "No request has been made yet." in lamella(tmp_path, "inspect").stderr


def test_nor_does_a_sitting_in_which_nothing_was_sent(tmp_path: Path) -> None:
    _, told = at_prompt(tmp_path, "/stauts")
    assert "Did you mean /status?" in told
    assert "There is no conversation yet." in lamella(tmp_path, "sessions", "list").stderr


def test_inspect_shows_the_newest_request_there_is(tmp_path: Path) -> None:
    """Also after a conversation in which nothing was asked: a command is not sent to the model."""
    assert chat(tmp_path, "Hello there.").returncode == 0
    shown = lamella(tmp_path, "inspect").stdout
    assert chat(tmp_path, "--model", "nonsense", "Hello").returncode != 0
    assert chat(tmp_path, "/status").returncode == 0
    assert lamella(tmp_path, "inspect").stdout == shown
    assert shown.startswith("req_")
