"""The second model for restricted access, as it is configured: asked in silence, so that no log holds what it reads."""

from __future__ import annotations

import asyncio

from lamella.agent.request import side_prompt
from lamella.agent.side import SideAnswer, ask
from lamella.app.own_endpoint import own_endpoint, restricted_model
from lamella.app.providers import Endpoint, Models, adapter
from lamella.core.errors import ProviderError
from lamella.core.messages import StopReason
from lamella.core.ports import ChatModel, OpenModel
from lamella.core.prompt import Sampling
from lamella.knowledge.restricted.second_model import Heard
from lamella.llm.model_table import ModelTable
from lamella.settings import Settings

MAX_OUTPUT = 4_096
"""Tokens of an answer: some models think before a few sentences."""

PAUSE = 0.5
"""Seconds before a provider that was busy is asked again; doubled each time."""


def restricted_of(settings: Settings, models: Models, table: ModelTable) -> RestrictedModel | None:
    """The second model, None where none is configured. Raises `ConfigurationError` for half a configuration."""
    own = restricted_model(settings)
    endpoint = own_endpoint(settings, own)
    if own.name is None:
        return None
    return RestrictedModel(own.name, endpoint, models, table, settings.provider_retries)


class RestrictedModel:
    """A `SecondModel`: at an endpoint of its own, or one of the deployment's models."""

    def __init__(
        self, name: str, endpoint: Endpoint | None, models: Models, table: ModelTable, retries: int = 0
    ) -> None:
        self.name = name
        self._endpoint = endpoint
        self._models = models
        self._table = table
        self._retries = retries
        self._opening = asyncio.Lock()
        self._adapter: ChatModel | None = None

    async def ask(self, prompt: str, material: str) -> Heard:
        """See `SecondModel.ask`. The request is recorded nowhere: its body is protected text."""
        model = (await self._open()).model
        sampling = Sampling(min(MAX_OUTPUT, model.facts.max_output))
        made = await asyncio.to_thread(side_prompt, model.facts.name, prompt, material, sampling)
        request = model.request(made, model.wire(made).blocks, ())
        for attempt in range(self._retries + 1):
            answer = await ask(model, request, {})
            if attempt == self._retries or not _may_pass_later(answer):
                break
            await asyncio.sleep(PAUSE * 2**attempt)
        if answer.error is not None:
            raise answer.error
        whole = answer.stop_reason is StopReason.END_TURN and not answer.called_tools
        return Heard(answer.text, whole, answer.usage)

    async def _open(self) -> OpenModel:
        endpoint = self._endpoint
        if endpoint is None:
            return await self._models.open_silent(self.name)
        async with self._opening:
            if self._adapter is None:
                self._adapter = await adapter(self._table.facts(self.name, endpoint.provider), endpoint)
            return OpenModel(self._adapter, endpoint.account)

    async def close(self) -> None:
        """Let its connections go."""
        if self._adapter is not None:
            await self._adapter.close()


def _may_pass_later(answer: SideAnswer) -> bool:
    return isinstance(answer.error, ProviderError) and answer.error.retryable and not answer.said
