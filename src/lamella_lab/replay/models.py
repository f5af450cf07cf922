"""The models of a replay: the real adapters against the simulator, or without any provider if recorded answers are
played.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamella.core.models import ModelFacts
from lamella.core.ports import OpenModel
from lamella.llm.model_table import ModelTable
from lamella.sessions.summariser import SummariserChoice
from lamella_lab.replay.environment import ACCOUNT, ReplayEnvironment
from lamella_lab.replay.playback import Playback
from lamella_lab.replay.replayed import ReplayedModel
from lamella_lab.replay.report import PromptRead
from lamella_lab.trace.format import TraceHead


class ReplayModels:
    """A `ModelSource`. Who makes a model is the trace's account, else what its table says, else what its name says."""

    def __init__(
        self, environment: ReplayEnvironment, url: str, head: TraceHead, playback: Playback, table: ModelTable
    ) -> None:
        self.playback = playback
        self._ground = environment
        self._url = url
        self._provider = head.account.provider
        self._table = table.with_rows(head.models, "the trace")
        self._makers = {str(row["name"]): row.get("provider") for row in head.models}

    async def reads(self) -> Mapping[str, PromptRead]:
        """How far the prompts so far were read from the cache, by the provider's ids of the requests."""
        return await self._ground.reads()

    def facts(self, name: str) -> ModelFacts:
        """What is known of a model."""
        said: Any = self._provider or self._makers.get(name)
        return self._table.facts(name, said or ("openai" if name.startswith("gpt-") else "anthropic"))

    async def open(self, name: str) -> OpenModel:
        """See `ModelSource.open`."""
        model = await self._ground.adapter(self.facts(name), self._url)
        return OpenModel(ReplayedModel(model, self.playback), ACCOUNT)


class ReplaySummaryModel:
    """A `SummaryModelSource`: another model of the replay makes the summaries."""

    def __init__(self, models: ReplayModels, name: str, choice: SummariserChoice) -> None:
        self.choice: SummariserChoice = choice
        self._models = models
        self._name = name

    def facts(self) -> ModelFacts:
        """See `SummaryModelSource`."""
        return self._models.facts(self._name)

    async def open(self) -> OpenModel:
        """See `SummaryModelSource`."""
        return await self._models.open(self._name)
