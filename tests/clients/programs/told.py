"""What every program here says: a long system prompt, a question that wants a tool, and two more."""

import os

SYSTEM = "The keeper lights the lamp at dusk and notes the weather, the ships and the oil that is left. " * 80
QUESTIONS = ("How is the lamp in the tower?", "And the ships?", "Thank you")
CLAUDE = os.environ.get("TOLD_MODEL", "claude-opus-5-5")
GPT = os.environ.get("TOLD_MODEL", "gpt-6.1-terra")


def look(place: str) -> str:
    """Tells what there is to see at a place."""
    return f"At {place} the lamp is green."
