"""What a message is: a command, words, or words that begin with an escaped slash. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches

from lamella.core.errors import InvalidRequest

_COMMAND = re.compile(r"/(?P<name>[a-z]+)(?:\s+(?P<argument>.*))?\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Typed:
    """A command as it was typed: its name in lower case, and what follows it."""

    name: str
    argument: str = ""


def parse(text: str, known: Collection[str]) -> Typed | str:
    """The command, or the text to send to the model; `//x` is the text `/x`.

    A path such as `/etc/hosts` is no command. Raises `InvalidRequest` for a command that does not exist, with the
    nearest that does.
    """
    stripped = text.strip()
    if stripped.startswith("//"):
        return text.replace("//", "/", 1)
    found = _COMMAND.fullmatch(stripped)
    if found is None:
        return text
    name = found["name"].lower()
    if name in known:
        return Typed(name, (found["argument"] or "").strip())
    near = get_close_matches(name, sorted(known), n=1)
    hint = f"Did you mean /{near[0]}?" if near else "/help lists the commands."
    raise InvalidRequest(
        f"There is no command /{name}.", hint=f"{hint} To send it as text, write //{name}.", param="text"
    )
