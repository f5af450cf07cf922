"""Fields of a provider's answer, checked: the SDKs build their objects from whatever JSON came."""

from __future__ import annotations

from collections.abc import Mapping


def plain(text: str) -> str:
    """`text` itself, with U+FFFD for half a surrogate pair, which JSON allows and nobody could store or send.

    Raises `TypeError` for what is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"a text was expected, not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_LONGEST_NAME = 256


def name_of(value: object) -> str | None:
    """A provider's name of something that is kept and sent back; None for what can't be one: it is no loss."""
    fits = isinstance(value, str) and value.isascii() and value.isprintable() and 0 < len(value) <= _LONGEST_NAME
    return str(value) if fits else None


def word(value: object) -> str:
    """A word of a provider as it is kept and shown; "" for what is none."""
    return name_of(value) or ""


def index_of(value: int) -> int:
    """The number of a block. Raises `TypeError` for what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"the number of a block was expected, not {value!r}")
    return value


def counter(reported: object, name: str, known: int = 0) -> int:
    """A counter of the usage, or what is known of it already: servers leave some out, and an answer outweighs them."""
    return _count(getattr(reported, name, None), known)


def count_of(reported: Mapping[str, object], name: str, known: int = 0) -> int:
    """As `counter`, of a JSON object."""
    return _count(reported.get(name), known)


def part(whole: Mapping[str, object], name: str) -> Mapping[str, object]:
    """An object in a JSON object; an empty one where there is none."""
    found = whole.get(name)
    return found if isinstance(found, dict) else {}


def _count(value: object, known: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else known
