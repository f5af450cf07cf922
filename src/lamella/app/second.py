"""The second model that makes summaries, as it is configured (SPEC L11)."""

from __future__ import annotations

import asyncio

from lamella.app.own_endpoint import compaction_model, own_endpoint
from lamella.app.providers import Endpoint, Models, adapter
from lamella.core.models import ModelFacts
from lamella.core.ports import ChatModel, OpenModel
from lamella.llm.model_table import ModelTable
from lamella.sessions.settings import SummariserChoice
from lamella.settings import Settings


def second_of(settings: Settings, models: Models, table: ModelTable) -> Second | None:
    """The second model, None where none is configured. Raises `ConfigurationError` for half a configuration."""
    own = compaction_model(settings)
    endpoint = own_endpoint(settings, own)
    if own.name is None:
        return None
    return Second(own.name, endpoint, models, table, settings.compaction_choice)


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

    def facts(self) -> ModelFacts:
        """See `SecondSource.facts`."""
        if self._endpoint is None:
            return self._models.facts(self._name)
        return self._table.facts(self._name, self._endpoint.provider)

    async def open(self) -> OpenModel:
        """See `SecondSource.open`."""
        endpoint = self._endpoint
        if endpoint is None:
            return await self._models.open(self._name)
        async with self._opening:
            if self._adapter is None:
                self._adapter = await adapter(self.facts(), endpoint)
            return OpenModel(self._adapter, endpoint.account)

    async def open_silent(self) -> OpenModel:
        """As `open`, with a model that logs nothing of what it is asked and answers."""
        return await self._models.open_silent(self._name) if self._endpoint is None else await self.open()

    async def close(self) -> None:
        """Let its connections go."""
        if self._adapter is not None:
            await self._adapter.close()
