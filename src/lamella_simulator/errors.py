"""What a request can be answered with instead of a reply; each wire words it in its vendor's shape.

ProviderError
├─ status 400  the caller's request is wrong
├─ status 401  no key, or a rejected one
├─ status 404  no such model or path
└─ status 429, 500, 504, 529  the provider's trouble, injected by a fault or a rate limit
"""

from __future__ import annotations


class ProviderError(Exception):
    """`code` is OpenAI's machine-readable detail; `retry_after` is in seconds."""

    def __init__(self, status: int, message: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.retry_after = retry_after


def invalid(message: str, *, code: str | None = None) -> ProviderError:
    """400: the caller must change the request; repeating it cannot help."""
    return ProviderError(400, message, code=code)
