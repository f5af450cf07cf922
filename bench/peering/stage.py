"""What every driver shares: the conversation, the clock between its questions, and the note it prints at its end."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import urllib.request
from collections.abc import Iterator

from peering.conversation import SECONDS_BETWEEN, Conversation

CONVERSATION = Conversation()
CLAUDE, GPT = "claude-opus-5", "gpt-5.6"


def address() -> str:
    """Of the simulator: the first argument of a driver."""
    return sys.argv[1]


def look_up(topic: str) -> str:
    """Looks up a part of the building in the files of the site, by its number of two digits."""
    return CONVERSATION.result(topic)


def questions() -> Iterator[str]:
    """What the user asks, with a minute of virtual time between."""
    for turn in range(1, CONVERSATION.turns + 1):
        yield CONVERSATION.question(turn)
        pass_time()
    yield CONVERSATION.last_question


def pass_time() -> None:
    body = json.dumps({"advance_seconds": SECONDS_BETWEEN}).encode()
    urllib.request.urlopen(f"{address()}/_sim/clock", body).close()


def told(last_answer: str, *packages: str) -> None:
    """Prints the answer to the last question and the versions that ran, as the driver's last line."""
    versions = {name: importlib.metadata.version(name) for name in packages}
    print(json.dumps({"answer": last_answer, "versions": versions}))
