"""The models that can be asked, and their adapters, whose modules are loaded in a thread when they are first needed."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Protocol

from lamella.app.demonstration import MODEL as DEMONSTRATION_MODEL
from lamella.app.demonstration import Simulator, demonstration
from lamella.app.extensions import Wire, registered_wires
from lamella.core.clock import SystemClock
from lamella.core.errors import InvalidRequest
from lamella.core.models import SHIPPED_WIRES, ModelFacts, WireProtocol
from lamella.core.ports import ChatModel, ModelSource, OpenModel
from lamella.llm.model_table import ModelTable
from lamella.llm.retry import LoggedModel, ProtectedBases, RetryingModel, all_protected
from lamella.settings import Settings, header_lines

DEFAULT_MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-6.1-terra"}
OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
NO_KEY = "no-key"


class Models(ModelSource, Protocol):
    """The models of a deployment."""

    default: str

    @property
    def is_demonstration(self) -> bool:
        """Whether no real model is configured."""
        ...

    def facts(self, name: str) -> ModelFacts:
        """The facts of a model that is served here. Raises `InvalidRequest` otherwise."""
        ...

    def names(self) -> tuple[str, ...]:
        """The models to choose from."""
        ...

    async def open_silent(self, name: str) -> OpenModel:
        """As `open`, a model that never logs requests or answers, and does not retry."""
        ...

    async def warm(self) -> None:
        """Load what the default model needs in advance."""
        ...

    async def close(self) -> None:
        """Close all open models."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A provider's address and our credentials."""

    provider: str
    base_url: str
    key: str
    timeout: float
    retries: int
    log_bodies: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of each request that the deployment adds."""

    @property
    def account(self) -> str:
        """The account of shared caches: the address and a fingerprint of the key, never the key."""
        return f"{self.base_url}#{blake2b(self.key.encode(), digest_size=8).hexdigest()}"


def endpoints(settings: Settings) -> Mapping[str, Endpoint]:
    """The configured providers: by a key, or by the address of a server that needs none."""
    found = {}
    s = settings
    for provider, key, url, usual, lines in (
        ("anthropic", s.anthropic_api_key, s.anthropic_base_url, ANTHROPIC_URL, s.anthropic_custom_headers),
        ("openai", s.openai_api_key, s.openai_base_url, OPENAI_URL, s.openai_custom_headers),
    ):
        if key is not None or url is not None:
            secret = key.get_secret_value() if key is not None else NO_KEY
            found[provider] = Endpoint(
                provider,
                url or usual,
                secret,
                settings.provider_timeout,
                settings.provider_retries,
                settings.log_llm_requests,
                header_lines(lines.get_secret_value()) if lines is not None else {},
            )
    return found


def usual_url(provider: str) -> str:
    """The default address of a vendor."""
    return {"anthropic": ANTHROPIC_URL, "openai": OPENAI_URL}[provider]


def vendor_of(name: str) -> str | None:
    """The vendor of a model, as far as its name tells; compatible servers have models of any name."""
    if name.startswith("claude"):
        return "anthropic"
    if name.startswith(("gpt-", "o1", "o3")):
        return "openai"
    return DEMONSTRATION_MODEL if name == DEMONSTRATION_MODEL else None


class Providers:
    """The configured providers' `Models`. Without any provider, the offline demonstration is the only model."""

    def __init__(self, settings: Settings, table: ModelTable, protected: ProtectedBases = all_protected) -> None:
        self._settings = settings
        self._table = table
        self._protected = protected
        self._endpoints = endpoints(settings)
        self._simulator: Simulator | None = None if self._endpoints else demonstration()
        self._models: dict[str, OpenModel] = {}
        self._opening = asyncio.Lock()
        self.default = self._default()

    def _default(self) -> str:
        if self.is_demonstration:
            return DEMONSTRATION_MODEL
        if self._settings.model:
            return self._settings.model
        return DEFAULT_MODELS[next(iter(self._endpoints))]

    @property
    def is_demonstration(self) -> bool:
        """Whether no real model is configured."""
        return self._simulator is not None

    def provider_of(self, name: str) -> str:
        """The configured provider that serves this model. Raises `InvalidRequest` if none does."""
        if name == DEMONSTRATION_MODEL and self.is_demonstration:
            return "anthropic"
        prefix, _, rest = name.partition(":")
        vendor = prefix if prefix in DEFAULT_MODELS and rest else vendor_of(name)
        if vendor is not None and vendor in self._endpoints:
            return vendor
        is_free = vendor is None or (name == self.default and vendor != prefix)
        if is_free and len(self._endpoints) == 1:
            return next(iter(self._endpoints))
        raise InvalidRequest(
            f"No configured provider serves the model “{name}”.",
            hint=f"Choose another model, such as {self.default}, or set the provider's key and start again.",
            param="model",
        )

    def facts(self, name: str) -> ModelFacts:
        """The facts of a model that is served here. Raises `InvalidRequest` otherwise."""
        provider = self.provider_of(name)
        facts = self._table.facts(name.removeprefix(f"{provider}:"), provider)
        if facts.protocol not in SHIPPED_WIRES:
            _registered(facts.protocol)
        return replace(facts, protocol=self._protocol(facts))

    def _protocol(self, facts: ModelFacts) -> str:
        """What the model is spoken to in: few servers that speak OpenAI's protocols speak more than the first."""
        settings = self._settings
        if facts.provider != "openai" or facts.protocol not in SHIPPED_WIRES:
            return facts.protocol
        if settings.openai_api is None:
            return WireProtocol.CHAT if settings.openai_base_url else facts.protocol
        return WireProtocol.RESPONSES if settings.openai_api == "responses" else WireProtocol.CHAT

    def names(self) -> tuple[str, ...]:
        """The models to choose from."""
        if self.is_demonstration:
            return (DEMONSTRATION_MODEL,)
        served = [n for n in self._table.names() if n != DEMONSTRATION_MODEL and self._serves(n)]
        return tuple(dict.fromkeys([self.default, *served]))

    def _serves(self, name: str) -> bool:
        try:
            return self._table.facts(name, self.provider_of(name)).known
        except InvalidRequest:
            return False

    async def open(self, name: str) -> OpenModel:
        """See `ModelSource.open`."""
        facts = self.facts(name)
        async with self._opening:
            endpoint = await self._endpoint(name)
            key = f"{endpoint.account}/{facts.protocol}/{facts.name}"
            if key not in self._models:
                retrying = RetryingModel(
                    await adapter(facts, endpoint, self._protected),
                    SystemClock(),
                    patience=endpoint.timeout,
                    retries=endpoint.retries,
                )
                self._models[key] = OpenModel(retrying, endpoint.account)
            return self._models[key]

    async def open_silent(self, name: str) -> OpenModel:
        """See `Models.open_silent`."""
        facts = self.facts(name)
        async with self._opening:
            endpoint = replace(await self._endpoint(name), log_bodies=False)
            key = f"silent {endpoint.account}/{facts.protocol}/{facts.name}"
            if key not in self._models:
                self._models[key] = OpenModel(await adapter(facts, endpoint, self._protected), endpoint.account)
            return self._models[key]

    async def endpoint(self, provider: str) -> Endpoint | None:
        """The address of a provider, and our key there; None if it is not configured. The demonstration is every
        provider.
        """
        if self._simulator is None:
            return self._endpoints.get(provider)
        async with self._opening:
            found = await self._demonstration()
        return found if provider == "anthropic" else replace(found, base_url=f"{found.base_url}/v1")

    async def _endpoint(self, name: str) -> Endpoint:
        return self._endpoints[self.provider_of(name)] if self._simulator is None else await self._demonstration()

    async def _demonstration(self) -> Endpoint:
        assert self._simulator is not None
        settings = self._settings
        return Endpoint(
            "anthropic",
            await self._simulator.start(),
            "demo",
            settings.provider_timeout,
            settings.provider_retries,
            settings.log_llm_requests,
        )

    async def warm(self) -> None:
        """Load the adapter and start the demonstration in advance."""
        await self.open(self.default)

    async def close(self) -> None:
        """Let every connection go, and end the demonstration's process."""
        for opened in self._models.values():
            await opened.model.close()
        if self._simulator is not None:
            await self._simulator.close()


async def adapter(facts: ModelFacts, endpoint: Endpoint, protected: ProtectedBases = all_protected) -> ChatModel:
    """The adapter for a model; its module is imported in a thread (0.2 s). It asks once: see `RetryingModel`."""
    made = _build(await load_wire(facts.protocol), facts, endpoint)
    return LoggedModel(made, endpoint.base_url, protected) if endpoint.log_bodies else made


async def load_wire(name: str) -> Wire:
    """The adapter of a wire; raises `InvalidRequest` if it is not installed."""
    if name in SHIPPED_WIRES:
        module = await asyncio.to_thread(importlib.import_module, f"lamella.llm.{name}")
        return Wire(module.connect, module.body_of)
    return _registered(name)


def _registered(name: str) -> Wire:
    found = registered_wires()
    if name not in found:
        raise InvalidRequest(
            f"The wire “{name}” is not installed.",
            hint=f"Install the package that has it. Installed are: {', '.join([*sorted(SHIPPED_WIRES), *found])}.",
            param="wire",
        )
    return found[name]


def _build(wire: Wire, facts: ModelFacts, endpoint: Endpoint) -> ChatModel:
    given: dict[str, object] = {"headers": endpoint.headers} if endpoint.headers else {}
    return wire.connect(
        facts, base_url=endpoint.base_url, key=endpoint.key, timeout=endpoint.timeout, retries=0, **given
    )
