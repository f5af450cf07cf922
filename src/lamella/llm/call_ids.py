"""Tool-call ids in the alphabet that a provider takes, the same for ever for the same id (law 5)."""

from __future__ import annotations

import re
from hashlib import blake2b

_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")


def wire_call_id(id: str, longest: int) -> str:
    """`id` itself where it is plain and short enough, else `call_` and its fingerprint."""
    if _PLAIN.fullmatch(id) and len(id) <= longest:
        return id
    return "call_" + blake2b(id.encode(), digest_size=12).hexdigest()
