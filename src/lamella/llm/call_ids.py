"""Ids and names of tool calls in the alphabet that a provider takes, the same for ever for the same one (law 5).

A call stays in the history when the conversation goes on with another provider, and some servers let a model call
tools by any name.
"""

from __future__ import annotations

import re
from hashlib import blake2b

_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")
_OTHERS = re.compile(r"[^a-zA-Z0-9_-]")


def wire_call_id(id: str, longest: int) -> str:
    """`id` itself where it is plain and short enough, else `call_` and its fingerprint."""
    if _PLAIN.fullmatch(id) and len(id) <= longest:
        return id
    return "call_" + blake2b(id.encode(), digest_size=12).hexdigest()


def wire_tool_name(name: str, longest: int) -> str:
    """`name` itself where it is plain and short enough, else its beginning with `_` for what is not taken."""
    if _PLAIN.fullmatch(name) and len(name) <= longest:
        return name
    return _OTHERS.sub("_", name)[:longest] or "_"
