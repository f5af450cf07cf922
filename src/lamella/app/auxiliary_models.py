"""The models in addition to the conversations' own: one makes summaries, one reads restricted knowledge bases.

Each has its own endpoint, key and model name in the settings, for example `LAMELLA_COMPACTION_MODEL` or
`LAMELLA_RESTRICTED_MODEL`. Requests to the restricted model are never logged.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from lamella.agent.request import side_prompt
from lamella.agent.side import SideAnswer, ask
from lamella.app.providers import (
    NO_KEY,
    Endpoint,
    Models,
    Providers,
    adapter,
    endpoints,
    usual_url,
    vendor_of,
)
from lamella.core.errors import ConfigurationError, ProviderError
from lamella.core.messages import StopReason
from lamella.core.models import ModelFacts
from lamella.core.ports import ChatModel, OpenModel
from lamella.core.prompt import Sampling
from lamella.guard.lexicon import Lexicon
from lamella.knowledge.restricted.safe_answers import ModelReply
from lamella.llm.model_table import ModelTable
from lamella.llm.retry import ProtectedBases
from lamella.sessions.summariser import SummariserChoice
from lamella.settings import Settings


@dataclass(frozen=True, slots=True)
class AuxiliaryModel:
    """The settings of such a model. Their names begin with `prefix`; `purpose` describes its use."""

    prefix: str
    purpose: str
    name: str | None
    provider: str | None
    api_key: SecretStr | None
    base_url: str | None

    def variable(self, part: str) -> str:
        """The variable that says this."""
        return f"{self.prefix}_{part}"

    @property
    def set_variable(self) -> str | None:
        """The first variable that is set for the model's endpoint."""
        given = {"PROVIDER": self.provider, "API_KEY": self.api_key, "BASE_URL": self.base_url}
        return next((self.variable(part) for part, value in given.items() if value is not None), None)


def compaction_model(settings: Settings) -> AuxiliaryModel:
    """The model that makes summaries."""
    s = settings
    own = s.compaction_model, s.compaction_provider, s.compaction_api_key, s.compaction_base_url
    return AuxiliaryModel("LAMELLA_COMPACTION", "summaries", *own)


def restricted_model(settings: Settings) -> AuxiliaryModel:
    """The model that reads documents with restricted access."""
    s = settings
    own = s.restricted_model, s.restricted_provider, s.restricted_api_key, s.restricted_base_url
    return AuxiliaryModel("LAMELLA_RESTRICTED", "restricted access", *own)


def own_endpoint(settings: Settings, model: AuxiliaryModel) -> Endpoint | None:
    """The model's endpoint; None if only its name is set, so that it uses the conversations' endpoint of the same
    provider. Raises `ConfigurationError` for an incomplete configuration.
    """
    name, variable = model.name, model.set_variable
    if name is None and variable is not None:
        raise ConfigurationError(
            f"{variable} is set, but no model for {model.purpose}.",
            hint=f"Set {model.variable('MODEL')} too.",
            param=variable,
        )
    if name is None or variable is None:
        return None
    provider = model.provider or vendor_of(name)
    if provider not in ("anthropic", "openai"):
        raise ConfigurationError(
            f"No provider is known for the model “{name}” for {model.purpose}.",
            hint=f"Set {model.variable('PROVIDER')} to anthropic or openai.",
            param=model.variable("PROVIDER"),
        )
    usual = endpoints(settings).get(provider)
    url = model.base_url or (usual.base_url if usual else usual_url(provider))
    key = model.api_key.get_secret_value() if model.api_key is not None else usual.key if usual is not None else NO_KEY
    if key == NO_KEY and model.base_url is None:
        raise ConfigurationError(
            f"There is no key for the model “{name}” for {model.purpose}.",
            hint=f"Set {model.variable('API_KEY')}.",
            param=model.variable("API_KEY"),
        )
    headers = usual.headers if usual is not None and usual.base_url == url else {}
    return Endpoint(provider, url, key, settings.provider_timeout, settings.provider_retries, headers=headers)


class _OwnModel:
    """A model at an endpoint of its own, or one of the deployment's models."""

    def __init__(self, name: str, endpoint: Endpoint | None, models: Models, table: ModelTable) -> None:
        self.name = name
        self._endpoint = endpoint
        self._models = models
        self._table = table
        self._opening = asyncio.Lock()
        self._adapter: ChatModel | None = None

    def facts(self) -> ModelFacts:
        """The facts of the model."""
        if self._endpoint is None:
            return self._models.facts(self.name)
        return self._table.facts(self.name, self._endpoint.provider)

    async def open(self) -> OpenModel:
        """Open the model. Raises a `LamellaError` if it can't be reached."""
        return await self._own(self._endpoint) if self._endpoint is not None else await self._models.open(self.name)

    async def open_silent(self) -> OpenModel:
        """As `open`, with a model that logs neither requests nor answers."""
        if self._endpoint is not None:
            return await self._own(self._endpoint)
        return await self._models.open_silent(self.name)

    async def _own(self, endpoint: Endpoint) -> OpenModel:
        async with self._opening:
            if self._adapter is None:
                self._adapter = await adapter(self.facts(), endpoint)
            return OpenModel(self._adapter, endpoint.account)

    async def close(self) -> None:
        """Let its connections go."""
        if self._adapter is not None:
            await self._adapter.close()


class SummaryModel(_OwnModel):
    """A `SummaryModelSource`."""

    def __init__(
        self, name: str, endpoint: Endpoint | None, models: Models, table: ModelTable, choice: SummariserChoice
    ) -> None:
        super().__init__(name, endpoint, models, table)
        self.choice = choice


def second_of(settings: Settings, models: Models, table: ModelTable) -> SummaryModel | None:
    """The summaries' model; None if none is configured. Raises `ConfigurationError` for an incomplete configuration."""
    own = compaction_model(settings)
    endpoint = own_endpoint(settings, own)
    if own.name is None:
        return None
    return SummaryModel(own.name, endpoint, models, table, settings.compaction_choice)


MAX_OUTPUT = 4_096
"""Tokens of an answer: some models think before a few sentences."""

PAUSE = 0.5
"""Seconds before a busy provider is asked again; doubles each time."""


def restricted_of(settings: Settings, models: Models, table: ModelTable) -> RestrictedModel | None:
    """The restricted model; None if none is configured. Raises `ConfigurationError` for an incomplete configuration."""
    own = restricted_model(settings)
    endpoint = own_endpoint(settings, own)
    if own.name is None:
        return None
    return RestrictedModel(own.name, endpoint, models, table, settings.provider_retries)


def word_lists() -> Callable[[], Mapping[str, Lexicon]] | None:
    """Reads the word lists of restricted access; None if `lamella[restricted]` is not installed."""
    if any(importlib.util.find_spec(package) is None for package in ("wordfreq", "simplemma")):
        return None
    return _lexicons


def _lexicons() -> Mapping[str, Lexicon]:
    """Loads the packages with the first reading: a server without restricted bases does not need them."""
    found: Mapping[str, Lexicon] = importlib.import_module("lamella.knowledge.restricted.wordlists").lexicons()
    return found


class RestrictedModel(_OwnModel):
    """A `MaskedModel`. `retries`: how often a busy provider is asked again."""

    def __init__(self, name: str, endpoint: Endpoint | None, models: Models, table: ModelTable, retries: int) -> None:
        super().__init__(name, endpoint, models, table)
        self._retries = retries

    async def ask(self, prompt: str, material: str) -> ModelReply:
        """See `MaskedModel.ask`. The request is recorded nowhere: its body is protected text."""
        model = (await self.open_silent()).model
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
        return ModelReply(answer.text, whole, answer.usage)


@dataclass(frozen=True, slots=True)
class ServedModels:
    """All models of a deployment: of conversations, of summaries, and of restricted knowledge bases."""

    main: Models
    second: SummaryModel | None
    restricted: RestrictedModel | None
    table: ModelTable


@asynccontextmanager
async def served_models(
    settings: Settings, models: Models | None, protected: ProtectedBases
) -> AsyncIterator[ServedModels]:
    """The models of the settings, closed when the block ends; `models` instead of the settings' for conversations.

    Raises `ConfigurationError` for an incomplete configuration.
    """
    table = ModelTable.read(settings.models)
    async with AsyncExitStack() as stack:
        main = models or Providers(settings, table, protected)
        stack.push_async_callback(main.close)
        served = ServedModels(main, second_of(settings, main, table), restricted_of(settings, main, table), table)
        for one in (served.second, served.restricted):
            if one is not None:
                stack.push_async_callback(one.close)
        yield served


def _may_pass_later(answer: SideAnswer) -> bool:
    return isinstance(answer.error, ProviderError) and answer.error.retryable and not answer.text_parts
