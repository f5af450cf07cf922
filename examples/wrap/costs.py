"""Asks three questions with Anthropic's own library, and says what each cost and why: `python costs.py [FOLDER]`.

It needs ANTHROPIC_API_KEY; ANTHROPIC_BASE_URL may name another server, such as `lamella simulate`.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import anthropic

import lamella

QUESTIONS = ("What is a lighthouse?", "Who keeps it?", "And in fog?")
SYSTEM = "You are a keeper of a lighthouse and answer in one sentence. " * 60


def costs(folder: str) -> list[str]:
    """A line for each question: its cost, and why its request read what it read from the cache."""
    client: Any = lamella.wrap(anthropic.Anthropic(), folder)
    messages: list[dict[str, Any]] = []
    lines = []
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        answer = client.messages.create(model="claude-opus-5-5", max_tokens=200, system=SYSTEM, messages=messages)
        messages.append({"role": "assistant", "content": [block.model_dump() for block in answer.content]})
        newest = client.lamella.newest()
        lines.append(f"{question} ${newest.request.cost:.4f}. {newest.why.text}")
    lines.append(f"Together ${newest.line.cost:.4f}; the markers saved ${newest.line.saved:.4f}.")
    client.lamella.close()
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        sys.stdout.write("\n".join(costs(sys.argv[1] if len(sys.argv) > 1 else made)) + "\n")
