"""The model table: `models.json` as `ModelFacts`, with cautious facts for names that it does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files

import msgspec

from lamella.core.models import ImageRule, Markers, ModelFacts, Price, Thinking, WireProtocol


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    window: int
    max_output: int
    min_cacheable: int
    price: Price
    markers: Markers
    name: str = ""
    provider: str = ""
    thinking: Thinking = Thinking.NONE
    binds_thinking: bool = False
    images: str | None = None
    system_messages: bool = False
    clears_system_messages: bool = False
    forced_tool_choice: bool = True
    tool_prompt: int = 0
    token_factor: float = 1.0
    efforts: tuple[str, ...] = ("low", "medium", "high")
    default_effort: str = "high"
    responses: bool = False
    """Whether the vendor serves it on the Responses API, where reasoning is kept between steps."""

    def facts(self, name: str, provider: str, rules: Mapping[str, ImageRule], *, known: bool) -> ModelFacts:
        return ModelFacts(
            name=name,
            provider=provider,
            window=self.window,
            max_output=self.max_output,
            min_cacheable=self.min_cacheable,
            price=self.price,
            markers=self.markers,
            thinking=self.thinking,
            binds_thinking=self.binds_thinking,
            images=rules[self.images] if self.images else None,
            system_messages=self.system_messages,
            clears_system_messages=self.clears_system_messages,
            forced_tool_choice=self.forced_tool_choice,
            tool_prompt=self.tool_prompt,
            token_factor=self.token_factor,
            efforts=self.efforts,
            default_effort=self.default_effort,
            protocol=self._protocol(provider),
            known=known,
        )

    def _protocol(self, provider: str) -> WireProtocol:
        if provider == "anthropic":
            return WireProtocol.MESSAGES
        return WireProtocol.RESPONSES if self.responses else WireProtocol.CHAT


class _Table(msgspec.Struct):
    version: str
    source: str
    inferred: dict[str, str]
    """What the vendors do not say, by field: how the table came to its value."""
    image_rules: dict[str, ImageRule]
    models: list[_Row]
    unknown: dict[str, _Row]


class ModelTable:
    """Facts by name. A dated name (`claude-opus-5-20260801`) has the facts of the longest name it begins with."""

    def __init__(self, known: Mapping[str, ModelFacts], unknown: Mapping[str, ModelFacts]) -> None:
        self._known = known
        self._unknown = unknown

    @classmethod
    def shipped(cls) -> ModelTable:
        """The table that comes with the package."""
        table = msgspec.json.decode(files("lamella.llm").joinpath("models.json").read_bytes(), type=_Table)
        rules = table.image_rules
        known = {row.name: row.facts(row.name, row.provider, rules, known=True) for row in table.models}
        unknown = {provider: row.facts("", provider, rules, known=False) for provider, row in table.unknown.items()}
        return cls(known, unknown)

    def names(self) -> tuple[str, ...]:
        """The names in the table."""
        return tuple(self._known)

    def facts(self, name: str, provider: str) -> ModelFacts:
        """The facts of a model as `provider` serves it."""
        exact = self._known.get(name)
        if exact is not None and exact.provider == provider:
            return exact
        begins = [n for n, f in self._known.items() if name.startswith(n + "-") and f.provider == provider]
        if begins:
            return replace(self._known[max(begins, key=len)], name=name)
        return replace(self._unknown[provider], name=name)
