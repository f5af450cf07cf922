"""The port to the second model: it is asked about protected text, and nothing of what it says is passed on unread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from lamella.core.tokens import Usage


@dataclass(frozen=True, slots=True)
class Heard:
    """What a second model said. `whole`: it came to its own end, and called nothing."""

    text: str
    whole: bool
    usage: Usage = field(default_factory=Usage)


class SecondModel(Protocol):
    """A model of the deployment's choice; no caller chooses it (`app`)."""

    name: str

    async def ask(self, prompt: str, material: str) -> Heard:
        """Its answer. Raises a `LamellaError` when it can't be asked; what that error says may hold protected text and
        is shown to nobody.

        It keeps and logs nothing of what it is asked.
        """
        ...
