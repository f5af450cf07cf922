"""What is a command and what is text."""

from __future__ import annotations

import pytest

from lamella.commands.parse import TypedCommand, parse
from lamella.core.errors import InvalidRequest

KNOWN = {
    "status": "/status",
    "new": "/new",
    "abort": "/abort",
    "prune": "/prune",
    "help": "/help",
    "compact": "/compact [focus]",
    "resume": "/resume [NUMBER | TEXT]",
    "queue": "/queue [drop N | clear | now]",
}


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("/status", TypedCommand("status")),
        ("  /STATUS \n", TypedCommand("status")),
        ("\ufeff/status\u200b", TypedCommand("status")),
        ("/status\r\n\r\n", TypedCommand("status")),
        ("/compact the budget and the dates", TypedCommand("compact", "the budget and the dates")),
        ("/resume\tsess_1", TypedCommand("resume", "sess_1")),
        ("/resume /etc/hosts", TypedCommand("resume", "/etc/hosts")),
    ],
)
def test_a_command(text: str, typed: TypedCommand) -> None:
    assert parse(text, KNOWN) == typed


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        "a /status b",
        "Hello,\n/new\nand more",
        "/etc/hosts is wrong",
        "/etc/hosts",
        "/usr/bin/env python3\nprint(1)",
        "/abort/ is a folder",
        "/index.html gives 404",
        "/* a comment */\nint x;",
        "/^new$/ matches",
        "/new@bot",
        "/status=1",
        "/",
        "/ status",
        "/3 of it",
        "/-x",
        "",
    ],
)
def test_text_stays_text(text: str) -> None:
    assert parse(text, KNOWN) == text


@pytest.mark.parametrize(
    ("text", "sent"),
    [("//status", "/status"), ("  //x y", "  /x y"), ("//", "/"), ("//new\nand more", "/new\nand more")],
)
def test_a_doubled_slash_escapes(text: str, sent: str) -> None:
    assert parse(text, KNOWN) == sent


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/statsu", "Did you mean /status? To send it as text, write //statsu."),
        ("/prune-tools", "Did you mean /prune? To send it as text, write //prune-tools."),
        ("/prune_tools now", "Did you mean /prune? To send it as text, write //prune_tools."),
        ("/new-session", "Did you mean /new? To send it as text, write //new-session."),
        ("/résumé 2", "Did you mean /resume? To send it as text, write //résumé."),
        ("/ABROT", "Did you mean /abort? To send it as text, write //ABROT."),
        ("/abort!", "Did you mean /abort? To send it as text, write //abort!."),
        ("/help?", "Did you mean /help? To send it as text, write //help?."),
        ("/compact: the dates", "Did you mean /compact? To send it as text, write //compact:."),
        ("/statsu\nand more", "Did you mean /status? To send it as text, write //statsu."),
        ("/xyzzy", "/help lists the commands. To send it as text, write //xyzzy."),
        ("/помощь", "/help lists the commands. To send it as text, write //помощь."),
    ],
)
def test_an_unknown_command_suggests_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(text, KNOWN)
    assert caught.value.hint == hint


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n \n", "\u2028", "\x0b"])
@pytest.mark.parametrize("first", ["/new", "/status", "/compact", "/compact the dates", "  /NEW  "])
def test_a_command_with_further_lines_is_refused(first: str, end: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(f"{first}{end}foo", KNOWN)
    assert "a command is one line: nothing was run, and nothing was sent." in caught.value.message


@pytest.mark.parametrize("text", ["/abort please do not", "/new foo", "/help me", "/prune all"])
def test_words_after_a_command_that_takes_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(text, KNOWN)
    assert "//" in str(caught.value.hint)
