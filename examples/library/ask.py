"""Asks one question with Lamella as a library: `python ask.py "What is a layout?" [FOLDER]`.

Without a provider's key the demonstration answers, as with `lamella serve`. The folder keeps the conversation: the
page shows it when a server is started over the same folder later.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from lamella.app.app import open_app
from lamella.chat.message import ExecutionRequest
from lamella.settings import read_settings


async def ask(question: str, folder: Path) -> str:
    """The whole answer, and what it was made from."""
    async with open_app(read_settings(data=folder)) as lamella:
        request = ExecutionRequest(text=question, dynamic_context=("The user reads this in a terminal.",))
        turn = await lamella.run(request)
        if turn.error is not None:
            return f"failed: {turn.error['message']}"
        [first, *_] = await lamella.maps(turn.id)
        window = " ".join(
            f"{one.segment.letters or one.segment.kind} {one.tokens}" for one in first.segments if one.tokens
        )
        return f"{turn.run.answer}\n\n{first.why.text}\n(tokens: {window})"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as made:
        where = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(made)
        sys.stdout.write(f"{asyncio.run(ask(sys.argv[1], where))}\n")
