"""The second model that makes summaries, as it is configured (SPEC L11)."""

from __future__ import annotations

import asyncio

from lamella.app.providers import NO_KEY, Endpoint, Models, adapter, endpoints, usual_url, vendor_of
from lamella.core.errors import ConfigurationError
from lamella.core.ports import ChatModel
from lamella.engine.opening import OpenModel
from lamella.llm.model_table import ModelTable
from lamella.sessions.settings import SummariserChoice
from lamella.settings import Settings


def second_of(settings: Settings, models: Models, table: ModelTable) -> Second | None:
    """The second model, None where none is configured. Raises `ConfigurationError` for half a configuration."""
    name, own = settings.compaction_model, _own_settings(settings)
    if name is None:
        if own:
            raise ConfigurationError(
                f"{own} is set, but no model for summaries.", hint="Set LAMELLA_COMPACTION_MODEL too.", param=own
            )
        return None
    endpoint = _endpoint(settings, name) if own else None
    return Second(name, endpoint, models, table, settings.compaction_choice)


def _own_settings(settings: Settings) -> str | None:
    """The first variable that says where the second model is."""
    given = {
        "LAMELLA_COMPACTION_PROVIDER": settings.compaction_provider,
        "LAMELLA_COMPACTION_API_KEY": settings.compaction_api_key,
        "LAMELLA_COMPACTION_BASE_URL": settings.compaction_base_url,
    }
    return next((variable for variable, value in given.items() if value is not None), None)


def _endpoint(settings: Settings, name: str) -> Endpoint:
    """Where the second model is: what is not said is as for the conversations' models of the same provider."""
    provider = settings.compaction_provider or vendor_of(name)
    if provider not in ("anthropic", "openai"):
        raise ConfigurationError(
            f"It is not known who serves the model “{name}” for summaries.",
            hint="Set LAMELLA_COMPACTION_PROVIDER to anthropic or openai.",
            param="LAMELLA_COMPACTION_PROVIDER",
        )
    usual = endpoints(settings).get(provider)
    url = settings.compaction_base_url or (usual.base_url if usual else usual_url(provider))
    secret = settings.compaction_api_key
    key = secret.get_secret_value() if secret is not None else usual.key if usual is not None else NO_KEY
    if key == NO_KEY and settings.compaction_base_url is None:
        raise ConfigurationError(
            f"There is no key for the model “{name}” for summaries.",
            hint="Set LAMELLA_COMPACTION_API_KEY.",
            param="LAMELLA_COMPACTION_API_KEY",
        )
    return Endpoint(provider, url, key, settings.provider_timeout, settings.provider_retries)


class Second:
    """A `SecondSource`: at an endpoint of its own, or one of the deployment's models."""

    def __init__(
        self, name: str, endpoint: Endpoint | None, models: Models, table: ModelTable, choice: SummariserChoice
    ) -> None:
        self.choice: SummariserChoice = choice
        self._name = name
        self._endpoint = endpoint
        self._models = models
        self._table = table
        self._opening = asyncio.Lock()
        self._adapter: ChatModel | None = None

    async def open(self) -> OpenModel:
        """See `SecondSource.open`."""
        endpoint = self._endpoint
        if endpoint is None:
            return await self._models.open(self._name)
        async with self._opening:
            if self._adapter is None:
                self._adapter = await adapter(self._table.facts(self._name, endpoint.provider), endpoint)
            return OpenModel(self._adapter, endpoint.account)

    async def close(self) -> None:
        """Let its connections go."""
        if self._adapter is not None:
            await self._adapter.close()
