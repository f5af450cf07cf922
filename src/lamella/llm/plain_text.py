"""Text from a provider that can be encoded: half a surrogate pair, which JSON allows, becomes U+FFFD."""

from __future__ import annotations


def plain(text: str) -> str:
    """`text` itself, unless it holds lone surrogates: nothing behind the adapters could store or send those."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
