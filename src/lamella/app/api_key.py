"""How an API key is written: `lam_`, eight characters that find it, `_`, and 260 random bits."""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass, field
from hashlib import sha256

MARK = "lam_"
"""What every key of a server begins with, so that scanners of source code can find one that leaked."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_FORM = re.compile(rf"{MARK}([{_ALPHABET}]{{8}})_[{_ALPHABET}]{{52}}")


@dataclass(frozen=True, slots=True)
class Minted:
    """A new key: the whole of it, shown once, and what is kept."""

    secret: str = field(repr=False)
    prefix: str
    digest: bytes = field(repr=False)


def mint() -> Minted:
    """A new random key."""
    prefix, rest = (_random(8), _random(52))
    secret = f"{MARK}{prefix}_{rest}"
    return Minted(secret, prefix, digest_of(secret))


def prefix_of(secret: str) -> str | None:
    """What finds a key; None for what is no key."""
    form = _FORM.fullmatch(secret)
    return None if form is None else form[1]


def digest_of(secret: str) -> bytes:
    """What is kept of a key. It is random and long, so a plain hash can't be guessed back."""
    return sha256(secret.encode()).digest()


def is_same(given: bytes, kept: bytes) -> bool:
    """Whether two digests are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(given, kept)


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
