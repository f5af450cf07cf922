"""The settings of a trace: those of a deployment that a request may depend on, by their lower-case names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr

from lamella.core.errors import ConfigurationError, InvalidRequest
from lamella.core.json import Json
from lamella.settings import Settings, given_settings

GivenSettings = dict[str, Any]
"""What a trace says of settings; what it does not say is as shipped."""

_OF_THE_DEPLOYMENT = frozenset(
    {
        "debounce_ms",
        "dynamic_context",
        "dynamic_context_seconds",
        "embedding_model",
        "knowledge_calls_per_conversation",
        "knowledge_calls_per_turn",
        "knowledge_result_tokens",
        "knowledge_summaries",
        "log_llm_requests",
        "marker_policy",
        "max_upload_bytes",
        "model",
        "open_url",
        "open_url_allow",
        "openai_api",
        "provider_retries",
        "provider_timeout",
        "queue_limit",
        "recall",
        "resume_timeout",
    }
)
"""Settings that change no request of a trace: it says the same elsewhere, or what came of them is in its turns."""


def _is_of_the_deployment(name: str) -> bool:
    """Whether a setting is left out of a trace: addresses, keys, and facts that the trace has elsewhere."""
    field = Settings.model_fields[name]
    kinds = {field.annotation, *get_args(field.annotation)}
    return name in _OF_THE_DEPLOYMENT or name.endswith(("_url", "_provider")) or bool(kinds & {SecretStr, Path})


CARRIED = tuple(name for name in Settings.model_fields if not _is_of_the_deployment(name))
"""The settings that a trace can say."""

UNUSED = frozenset(Settings.model_fields) - frozenset(CARRIED)
"""Settings that a replay takes and does nothing with: it names them."""


def settings_of(settings: GivenSettings) -> Settings:
    """The settings that a trace says. Raises `InvalidRequest` with the setting as its `param`."""
    for name in settings:
        if name not in CARRIED:
            known = ", ".join(CARRIED)
            raise InvalidRequest(f"There is no setting “{name}”.", hint=f"Choose one of {known}.", param=name)
    try:
        return given_settings({name: _written(value) for name, value in settings.items() if value is not None})
    except ConfigurationError as error:
        name = str(error.param)
        raise InvalidRequest(f"{name} can't be “{settings.get(name)}”: {error.message}.", param=name) from None


def _written(value: object) -> object:
    """A number as people write it in the environment, which is what settings read."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def carried_settings(settings: Settings) -> Mapping[str, Json]:
    """What a trace says of a deployment's settings: all that it can, so that it stays the same when defaults change."""
    found = {name: getattr(settings, name) for name in CARRIED}
    plain = (bool, int, float, str)
    return {
        name: value if isinstance(value, plain) else str(value) for name, value in found.items() if value is not None
    }
