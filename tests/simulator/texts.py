"""Texts of an exact size and short requests, shared by the tests of this folder."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
FIVE_MINUTES: Json = {"type": "ephemeral"}
ONE_HOUR: Json = {"type": "ephemeral", "ttl": "1h"}


def tokens(number: int, word: str = "red") -> str:
    """A text of exactly `number` o200k tokens; another word makes another text of the same size."""
    return f"{word}{f' {word}' * (number - 1)}"


def text(content: str, marker: Json | None = None) -> Json:
    block: Json = {"type": "text", "text": content}
    return block if marker is None else {**block, "cache_control": marker}


def user(*blocks: Json | str) -> Json:
    return {"role": "user", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def assistant(*blocks: Json | str) -> Json:
    return {"role": "assistant", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def at(minutes: float, seconds: float = 0.0) -> str:
    """A virtual moment, counted from nine o'clock."""
    total = round(minutes * 60 + seconds)
    return f"2026-03-01T{9 + total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}+00:00"


def counters(usage: Json) -> tuple[int, int, int]:
    """Read, written, fresh: in this order throughout the tests."""
    return usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"], usage["input_tokens"]


def chat_counters(usage: Json) -> tuple[int, int]:
    """Read and written, of OpenAI."""
    details = usage["prompt_tokens_details"]
    return details["cached_tokens"], details["cache_write_tokens"]
