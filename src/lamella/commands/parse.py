"""Decides whether a message is a command, text, or text with an escaped slash. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from lamella.core.errors import InvalidRequest

_COMMAND = re.compile(r"/(?P<name>[^\W\d_][\w-]*)(?P<marks>[.,:;!?…]*)(?:\s+(?P<argument>.*))?")
"""One word after the slash. A path (`/etc/hosts`, `/index.html`), `/3` and `/*` are not commands."""

_UNSEEN = "\ufeff\u200b\u200e\u200f\u2060"
"""Invisible characters that come along when a text is pasted."""

NEAR = 0.6
"""How alike a word and the name of a command are, from 0 to 1, for the command to be suggested."""


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A command as typed: its name in lower case, and the rest of the line."""

    name: str
    argument: str = ""


def parse(text: str, usages: Mapping[str, str]) -> TypedCommand | str:
    """The command, or the text to send to the model; `//x` is the text `/x`. `usages` has the syntax of each command.

    A message whose first line is a command may have no more lines. Raises `InvalidRequest` for further lines, for words
    after a command without arguments (`/abort please do not`), and for an unknown command, with the nearest one.
    """
    stripped = text.strip().strip(_UNSEEN).strip()
    if stripped.startswith("//"):
        return text.replace("//", "/", 1)
    first, *more = stripped.splitlines() or [""]
    found = _COMMAND.fullmatch(first)
    if found is None:
        return text
    name, argument = found["name"].lower(), (found["argument"] or "").strip()
    if name not in usages or found["marks"]:
        raise _unknown(f"{found['name']}{found['marks']}", usages)
    if more:
        raise InvalidRequest(
            f"/{name} is a command, and a command is one line: nothing was run, and nothing was sent.",
            hint=f"Send /{name} by itself and the rest as its own message. To send all of it as text, begin with //.",
            param="text",
        )
    if argument and not takes_argument(usages[name]):
        raise InvalidRequest(
            f"/{name} takes no words after it (“{argument[:60]}”): nothing was run.",
            hint=f"Send /{name} by itself. To send it as text, begin with //.",
            param="text",
        )
    return TypedCommand(name, argument)


def takes_argument(usage: str) -> bool:
    """Whether a command can have words after its name, by how it is typed (`/compact [focus]`)."""
    return " " in usage


def nearest(name: str, names: Collection[str]) -> str | None:
    """The nearest command to a mistyped one: `statsu`, `prune-tools`, `résumé`. Returns None if none is near."""
    plain = unicodedata.normalize("NFKD", name.lower())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    first = re.split(r"[-_]", plain)[0]
    if first in names:
        return first
    found = get_close_matches(plain, sorted(names), n=1, cutoff=NEAR)
    return found[0] if found else None


def _unknown(word: str, usages: Mapping[str, str]) -> InvalidRequest:
    near = nearest(word.rstrip(".,:;!?…"), usages)
    hint = f"Did you mean /{near}?" if near else "/help lists the commands."
    return InvalidRequest(
        f"There is no command “/{word}”.", hint=f"{hint} To send it as text, write //{word}.", param="text"
    )
