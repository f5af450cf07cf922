"""The models of a replay: the real adapters, all of them at the simulator."""

from __future__ import annotations

from collections.abc import Mapping

from lamella.app.replay.ground import ACCOUNT, ReplayGround
from lamella.app.replay.report import PromptRead
from lamella.app.replay.stage import Stage, StagedModel
from lamella.core.models import ModelFacts
from lamella.engine.opening import OpenModel
from lamella.llm.model_table import ModelTable


class ReplayModels:
    """A `ModelSource`. `provider` None: whoever makes the model."""

    def __init__(self, ground: ReplayGround, url: str, provider: str | None, stage: Stage, table: ModelTable) -> None:
        self.stage = stage
        self._ground = ground
        self._url = url
        self._provider = provider
        self._table = table

    async def reads(self) -> Mapping[str, PromptRead]:
        """How far the prompts so far were read from the cache, by the provider's ids of the requests."""
        return await self._ground.reads()

    def facts(self, name: str) -> ModelFacts:
        """What is known of a model."""
        return self._table.facts(name, self._provider or ("openai" if name.startswith("gpt-") else "anthropic"))

    async def open(self, name: str) -> OpenModel:
        """See `ModelSource.open`."""
        model = await self._ground.adapter(self.facts(name), self._url)
        return OpenModel(StagedModel(model, self.stage), ACCOUNT)
