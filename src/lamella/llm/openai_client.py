"""What both OpenAI adapters share: the SDK's client, and what its errors mean."""

from __future__ import annotations

from collections.abc import Mapping

import openai

from lamella.core.errors import ProviderError
from lamella.core.json import Json, encode_text
from lamella.core.models import ModelFacts, Thinking
from lamella.core.prompt import Level
from lamella.llm.failures import in_stream, of_status, said_in, timed_out
from lamella.llm.http_client import http_client
from lamella.llm.streaming import Vendor, lost

PROVIDER = "OpenAI"
KEY_VARIABLE = "OPENAI_API_KEY"
FILTERED = "the provider's content filter stopped it"
"""What there is to say of a refusal that comes without a text."""


def client_of(base_url: str, key: str, timeout: float, retries: int, *, log_bodies: bool = False) -> openai.AsyncOpenAI:
    """A client of its own. `timeout` is in seconds of silence."""
    http = http_client(openai.DefaultAsyncHttpxClient, base_url, key, timeout, log_bodies=log_bodies)
    return openai.AsyncOpenAI(api_key=key, base_url=base_url, timeout=timeout, max_retries=retries, http_client=http)


def failure_of(error: openai.OpenAIError, base_url: str, *, began: bool) -> ProviderError:
    """The SDK's error as one of ours; `began`: the provider had accepted the request."""
    match error:
        case openai.APITimeoutError():
            return timed_out(PROVIDER)
        case openai.APIStatusError() if not began:
            retry_after = error.response.headers.get("retry-after")
            return of_status(PROVIDER, error.status_code, error.body, KEY_VARIABLE, retry_after)
        case openai.APIError() if error.body is not None:
            return in_stream(PROVIDER, *said_in(error.body))
        case _:
            return lost(PROVIDER, base_url, error, began=began)


VENDOR = Vendor(PROVIDER, "x-request-id", openai.OpenAIError, failure_of)


def effort_salts(facts: ModelFacts, effort: Json) -> Mapping[Level, str]:
    """The effort changes the whole prefix; tool choice and pictures do not."""
    if facts.thinking is Thinking.NONE:
        return {}
    said = encode_text(effort or facts.default_effort)
    return {"tools": said, "system": said}
