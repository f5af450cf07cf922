"""A provider's refusal or failure as a member of our error tree, with what to do about it."""

from __future__ import annotations

from lamella.core.errors import (
    ProviderContextOverflow,
    ProviderError,
    ProviderOverloaded,
    ProviderRateLimited,
    ProviderRefusedKey,
    ProviderRefusedRequest,
    ProviderStreamBroken,
    ProviderTimeout,
    ProviderUnreachable,
)

_OVERFLOW_SIGNS = ("prompt is too long", "context_length_exceeded", "context window", "maximum context length")


def of_status(provider: str, status: int, message: str, key_variable: str, retry_after: str | None) -> ProviderError:
    """The error of an HTTP answer. `key_variable` is the setting that holds the key."""
    said = f"{provider} answered {status}: {message}"
    wait = f"Try again in {retry_after} s." if retry_after else "Try again in a moment."
    match status:
        case 401 | 403:
            return ProviderRefusedKey(said, hint=f"Check {key_variable} and that the key may use this model.")
        case 402:
            return ProviderRefusedKey(said, hint=f"Check the billing of the account behind {key_variable}.")
        case 404:
            return ProviderRefusedRequest(said, hint="Check the name in LAMELLA_MODEL and the base URL.")
        case 408 | 504:
            return ProviderTimeout(said, hint=wait)
        case 429:
            return ProviderRateLimited(said, hint=wait)
        case 503 | 529:
            return ProviderOverloaded(said, hint=wait)
        case _ if status >= 500:
            return ProviderUnreachable(said, hint=wait)
        case _ if any(sign in message for sign in _OVERFLOW_SIGNS):
            return ProviderContextOverflow(
                said, hint="Start a new conversation or choose a model with a larger window."
            )
        case _:
            return ProviderRefusedRequest(said, hint="The request's map and raw body show what was sent.")


def unreachable(provider: str, base_url: str, cause: str) -> ProviderError:
    """No connection."""
    return ProviderUnreachable(
        f"{provider} can't be reached at {base_url}: {cause}", hint="Check the network and the base URL."
    )


def timed_out(provider: str) -> ProviderError:
    """No answer in time."""
    return ProviderTimeout(f"{provider} did not answer in time.", hint="Try again in a moment.")


def broken(provider: str, cause: str) -> ProviderError:
    """The stream ended or made no sense in the middle of an answer."""
    return ProviderStreamBroken(
        f"{provider} broke off in the middle of the answer: {cause}", hint="What came is kept. Send the message again."
    )


def in_stream(provider: str, type: str, message: str) -> ProviderError:
    """An `error` event after the answer had begun."""
    said = f"{provider} failed in the middle of the answer: {type}: {message}"
    hint = "What came is kept. Send the message again."
    if type == "overloaded_error":
        return ProviderOverloaded(said, hint=hint)
    if type in ("rate_limit_error", "rate_limit_exceeded"):
        return ProviderRateLimited(said, hint=hint)
    return ProviderStreamBroken(said, hint=hint)
