"""Asked about passages that the asker may not read, the answerer says only whether they deal with the question."""

from __future__ import annotations

import json
from typing import Any

from lamella_simulator.answerer.conversation import Conversation, Heard
from lamella_simulator.answerer.words import words
from lamella_simulator.replies import Reply

DEALS_WITH_IT = "The documents deal with this question. For what they say, ask whoever keeps them."


def safe_summary(conversation: Conversation) -> Reply | None:
    """The reply to a question about untrusted passages, in the form that was asked for; None for any other request."""
    asked = next((made for piece in reversed(conversation.pieces) if (made := _asked(piece)) is not None), None)
    if asked is None:
        return None
    wanted = set(words(asked["question"]))
    fits = any(wanted & set(words(str(passage.get("text", "")))) for passage in asked["passages"])
    said = {
        "decision": "answer" if fits else "refuse",
        "reason": "answered" if fits else "not_in_documents",
        "summary": DEALS_WITH_IT if fits else "",
        "confidence": 0.8,
    }
    return Reply(text=json.dumps(said))


def _asked(piece: object) -> dict[str, Any] | None:
    if not isinstance(piece, Heard) or piece.role != "user" or '"passages_are":' not in piece.text:
        return None
    try:
        made = json.loads(piece.text)
    except ValueError:
        return None
    known = isinstance(made, dict) and isinstance(made.get("question"), str) and isinstance(made.get("passages"), list)
    return made if known and all(isinstance(one, dict) for one in made["passages"]) else None
