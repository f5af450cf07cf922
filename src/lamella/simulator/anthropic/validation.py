"""Requests that the Messages API refuses, in words close to its own (PROVIDERS 1.5, 1.7)."""

from __future__ import annotations

from lamella.simulator.anthropic.request import MessagesRequest
from lamella.simulator.errors import ProviderError, invalid
from lamella.simulator.models import Model, find


def known_model(name: str) -> Model:
    model = find(name, "anthropic")
    if model is None:
        raise ProviderError(404, f"model: {name}")
    return model


def validate(request: MessagesRequest, model: Model) -> None:
    if not request.messages:
        raise invalid("messages: at least one message is required")
