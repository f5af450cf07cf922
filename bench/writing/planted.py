"""Planted facts: 60 turns of looking after a web shop, a look into a log or a metric in each, and 36 facts on the way.

One more question stands at the end.

A fact is one sentence with a word `FACT-…`, said by user, tool or assistant in turn.
"""

from __future__ import annotations

from writing.operations import SERVICES, log_lines, metric
from writing.parts import Json, Telling, call, said, tool
from writing.tool_heavy import SYSTEM

TURNS = 60
FACTS = 36
LINES = 24
"""Lines of a log, about 1,500 tokens."""

SPEAKERS = ("user", "tool", "assistant")
TOOLS = [
    tool(
        "search_logs",
        "Lines of a service's log in a minute of today. Gives at most 200 lines, oldest first.",
        service="The service, such as checkout.",
        minute="The minute, such as 09:20.",
    ),
    tool("get_metric", "A metric of a service, one value for each minute.", service="The service.", name="Its name."),
]

ASKED = (
    "What does {service} look like at the beginning?",
    "Go on with {service}, a little later.",
    "Somebody from support says that {service} was slow. Is there anything in it?",
    "Before I write it down: check {service} once more, please.",
)
FOUND = (
    "Here {service} has both: requests that end at once, and a share that waits for the stock "
    "database and gives up. The errors come in groups of two or three, and the circuit breaker opens for a moment "
    "behind each. That fits the picture so far: {service} suffers from it and does not cause it.",
    "Nothing new in {service}. The same two kinds of lines, in about the same proportion as before. I would "
    "leave {service} alone now and look at what holds the connections.",
    "Yes, but little: the slow requests of {service} are those that reserve more than one position. "
    "The others are as fast as always. If the order of the positions mattered, we would see it here, and we do not.",
)


def fact(number: int) -> str:
    """The fact of this number: a sentence, as somebody would note it."""
    service = SERVICES[number % len(SERVICES)]
    return (
        f"FACT-{number:02d} is that runbook {4100 + number * 37} of {service} names the limit of "
        f"{number * 11 + 60} ms, and that its owner must be asked before anybody raises it."
    )


def planted(turn: int) -> tuple[str, str]:
    """Who says which fact in this turn; nobody in some."""
    number = turn * FACTS // TURNS
    if turn and number == (turn - 1) * FACTS // TURNS:
        return "", ""
    return SPEAKERS[number % len(SPEAKERS)], fact(number)


def look(turn: int, service: str, minute: str, note: str, lines: int) -> Json:
    """The call of a turn: a log, and in every third a metric; a note at its head."""
    if turn % 3 == 2:
        result = metric(turn, f"{service} pool_waiting", "calls", 4, 120, lines * 4)
        return call(f"c{turn}", "get_metric", f"{note}\n\n{result}", 400, service=service, name="pool_waiting")
    result = log_lines(turn, service, turn, lines)
    return call(f"c{turn}", "search_logs", f"{note}\n\n{result}", 900, service=service, minute=minute)


def trace(lines: int = LINES, **settings: int | str) -> Json:
    """The trace, on a model whose cache reads cost a tenth of its input."""
    telling = Telling("2026-03-11T10:00:00+01:00")
    for turn in range(TURNS):
        service, minute = SERVICES[turn * 5 % len(SERVICES)], f"09:{turn:02d}"
        by, note = planted(turn)
        says = {name: f" {note}" if by == name else "" for name in SPEAKERS}
        telling.turn(
            ASKED[turn % len(ASKED)].format(service=service) + says["user"],
            said(f"I look at {service}.", look(turn, service, minute, says["tool"].strip(), lines)),
            said(FOUND[turn % len(FOUND)].format(service=service) + says["assistant"]),
        )
    telling.turn("Which facts do you know of our runbooks?", said("All that were named."))
    return {
        "model": "claude-opus-5",
        "timezone": "Europe/Berlin",
        "system": SYSTEM,
        "tools": TOOLS,
        "settings": settings,
        "side": {"summary": "keep_facts"},
        "turns": telling.turns,
    }
