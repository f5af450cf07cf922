"""What is a command and what is text (SPEC L12)."""

from __future__ import annotations

import pytest

from lamella.commands.parse import Typed, parse
from lamella.core.errors import InvalidRequest

KNOWN = ("status", "new", "compact", "resume", "help")


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("/status", Typed("status")),
        ("  /STATUS \n", Typed("status")),
        ("/compact the budget and the dates", Typed("compact", "the budget and the dates")),
        ("/resume\nsess_1", Typed("resume", "sess_1")),
    ],
)
def test_a_command(text: str, typed: Typed) -> None:
    assert parse(text, KNOWN) == typed


@pytest.mark.parametrize("text", ["Hello", "a /status b", "/etc/hosts is a file", "/", "/ status", "/3 of it", ""])
def test_text_stays_text(text: str) -> None:
    assert parse(text, KNOWN) == text


@pytest.mark.parametrize(("text", "sent"), [("//status", "/status"), ("  //x y", "  /x y"), ("//", "/")])
def test_a_doubled_slash_escapes(text: str, sent: str) -> None:
    assert parse(text, KNOWN) == sent


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/statsu", "Did you mean /status? To send it as text, write //statsu."),
        ("/xyzzy", "/help lists the commands. To send it as text, write //xyzzy."),
    ],
)
def test_an_unknown_command_suggests_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(text, KNOWN)
    assert caught.value.hint == hint
