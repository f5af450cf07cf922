"""The upstreams of the gateway: which server a client's request goes to, by its dialect and its model."""

from __future__ import annotations

from dataclasses import replace

from lamella.app.providers import Providers
from lamella.core.errors import NotFound
from lamella.gateway.dialects import Dialect
from lamella.gateway.exchange import Route
from lamella.llm.model_table import ModelTable
from lamella.llm.upstream import Upstream

_PROVIDERS = {
    Dialect.MESSAGES: "anthropic",
    Dialect.CHAT: "openai",
    Dialect.RESPONSES: "openai",
    Dialect.EMBEDDINGS: "openai",
}
_PATHS = {
    Dialect.MESSAGES: "/v1/messages",
    Dialect.CHAT: "/chat/completions",
    Dialect.RESPONSES: "/responses",
    Dialect.EMBEDDINGS: "/embeddings",
}


class Upstreams:
    """The configured providers as upstreams. Without any, the demonstration answers every name in every dialect."""

    def __init__(self, providers: Providers | None, table: ModelTable) -> None:
        self._providers = providers
        self._table = table
        self._connections: dict[str, Upstream] = {}

    async def find(self, dialect: Dialect, model: str) -> Route:
        """Where requests to this model go in this dialect. Raises `NotFound`."""
        provider, providers = _PROVIDERS[dialect], self._providers
        endpoint = await providers.endpoint(provider) if providers is not None else None
        if providers is None or endpoint is None:
            raise NotFound(
                f"No upstream of this server speaks to “{model[:80]}” in this API.",
                hint=f"The operator sets {provider.upper()}_API_KEY, or {provider.upper()}_BASE_URL.",
                param="model",
            )
        name = model
        if providers.is_demonstration and model not in self._table.names():
            name = providers.default
        facts = replace(self._table.facts(name, provider), name=name)
        if endpoint.base_url not in self._connections:
            named = {"anthropic": "Anthropic", "openai": "OpenAI"}[provider]
            self._connections[endpoint.base_url] = Upstream(named, endpoint.base_url, endpoint.timeout)
        connection = self._connections[endpoint.base_url]
        return Route(connection, _PATHS[dialect], endpoint.key, name, endpoint.account, facts)

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            await connection.close()
