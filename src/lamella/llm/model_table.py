"""The model table: `models.json` as `ModelFacts`, with cautious facts for unknown names.

A deployment's own file extends it: rows in the same form, which may contain only what differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import msgspec

from lamella.core.caching import Ttl
from lamella.core.errors import ConfigurationError, InvalidRequest
from lamella.core.models import SHIPPED_WIRES, ImageRule, Markers, ModelFacts, Price, Thinking, WireProtocol

SETTING = "LAMELLA_MODELS"

_HINT = 'Write {"models": [{"name": "…", "provider": "openai", "window": 32768, "price": {"input": 0.2}}]}.'

_Row = dict[str, object]


class _Facts(msgspec.Struct, forbid_unknown_fields=True):
    window: int
    max_output: int
    min_cacheable: int
    price: Price
    markers: Markers
    lives: tuple[Ttl, ...]
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
    diagnoses: bool = False
    responses: bool = False
    """Whether the vendor serves it on the Responses API, where reasoning is kept between steps."""
    wire: str | None = None
    """A wire that an installed package adds; None: as its provider speaks."""

    def facts(self, rules: Mapping[str, ImageRule], *, known: bool) -> ModelFacts:
        """Raises `ValueError` for an invalid row, with the reason."""
        self._check(rules)
        return ModelFacts(
            name=self.name,
            provider=self.provider,
            window=self.window,
            max_output=self.max_output,
            min_cacheable=self.min_cacheable,
            price=self.price,
            markers=self.markers,
            lives=self.lives,
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
            protocol=self._protocol(),
            diagnoses=self.diagnoses,
            known=known,
        )

    def _protocol(self) -> str:
        if self.wire is not None:
            return self.wire
        if self.provider == "anthropic":
            return WireProtocol.MESSAGES
        return WireProtocol.RESPONSES if self.responses else WireProtocol.CHAT

    def _check(self, rules: Mapping[str, ImageRule]) -> None:
        if min(self.window, self.max_output) <= 0 or self.min_cacheable < 0 or self.token_factor <= 0:
            raise ValueError("window, max_output and token_factor are above 0, min_cacheable is not below it")
        if self.max_output >= self.window:
            raise ValueError(f"max_output ({self.max_output}) leaves nothing of the window ({self.window})")
        price = self.price
        if min(price.input, price.output, price.read, price.write_5m, price.write_1h, price.tier_factor) < 0:
            raise ValueError("no price is below 0")
        if not self.lives or list(self.lives) != sorted(self.lives, key=lambda life: life.seconds):
            raise ValueError("lives has at least one life, the shortest first")
        if self.images is not None and self.images not in rules:
            raise ValueError(f"images is one of {', '.join(rules)}, or null")


class _Table(msgspec.Struct):
    version: str
    source: str
    inferred: dict[str, str]
    """Facts that vendors do not publish, by field: how the value was inferred."""
    image_rules: dict[str, ImageRule]
    models: list[_Row]
    unknown: dict[str, _Row]


class _Own(msgspec.Struct, forbid_unknown_fields=True):
    models: list[_Row]
    version: str = ""


class ModelTable:
    """Facts by name. A dated name (`claude-opus-5-20260801`) has the facts of the longest name it begins with."""

    def __init__(self, known: Mapping[str, ModelFacts], unknown: Mapping[str, ModelFacts], version: str) -> None:
        self._known = dict(known)
        self._unknown = unknown
        self.version = version

    @classmethod
    def shipped(cls) -> ModelTable:
        """The table that comes with the package."""
        return cls.read(None)

    def with_rows(self, rows: Sequence[Mapping[str, object]], where: str) -> ModelTable:
        """The table with these rows before its own. `where` is named in errors.

        Raises `ConfigurationError`.
        """
        if not rows:
            return self
        shipped = _shipped()
        own = {str(row["name"]): row for row in shipped.models}
        made = [_own_facts(where, number, dict(row), own, shipped) for number, row in enumerate(rows, 1)]
        return ModelTable(self._known | {facts.name: facts for facts in made}, self._unknown, self.version)

    @classmethod
    def read(cls, own: Path | None) -> ModelTable:
        """The shipped table, with the rows of `own` before it. Raises `ConfigurationError` that names the row.

        A row with a shipped name changes that row. A new name starts from the cautious facts of its provider. `price`
        may be partial.
        """
        table = _shipped()
        rules = table.image_rules
        unknown = {
            provider: _facts({**row, "provider": provider}).facts(rules, known=False)
            for provider, row in table.unknown.items()
        }
        rows = {str(row["name"]): row for row in table.models}
        known = {name: _facts(row).facts(rules, known=True) for name, row in rows.items()}
        version = table.version
        if own is not None:
            file = _read_own(own)
            version = f"{version} with {file.version or own.name}"
            for number, row in enumerate(file.models, 1):
                facts = _own_facts(str(own), number, row, rows, table)
                known[facts.name] = facts
        return cls(known, unknown, version)

    def names(self) -> tuple[str, ...]:
        """The names in the table."""
        return tuple(self._known)

    def provider(self, name: str) -> str:
        """Who serves a model of the table by default."""
        return self._known[name].provider

    def facts(self, name: str, provider: str) -> ModelFacts:
        """The facts of a model as `provider` serves it."""
        exact = self._known.get(name)
        if exact is not None and exact.provider == provider:
            return exact
        begins = [n for n, f in self._known.items() if name.startswith(n + "-") and f.provider == provider]
        if begins:
            return replace(self._known[max(begins, key=len)], name=name)
        return replace(self._unknown[provider], name=name)


def facts(name: str) -> ModelFacts:
    """The facts of a model in the shipped table: window, prices and cache rules.

    A dated name has the facts of the name that it begins with. Raises `InvalidRequest` for an unknown name.
    """
    table = ModelTable.shipped()
    known = [known for known in table.names() if name == known or name.startswith(f"{known}-")]
    if not known:
        raise InvalidRequest(f"The model table has no {name!r}.", hint="It has " + ", ".join(table.names()) + ".")
    return table.facts(name, table.provider(max(known, key=len)))


def _shipped() -> _Table:
    return msgspec.json.decode(files("lamella.llm").joinpath("models.json").read_bytes(), type=_Table)


def _facts(row: _Row) -> _Facts:
    return msgspec.convert(row, _Facts)


def _read_own(path: Path) -> _Own:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Own)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}.", hint=_HINT, param=SETTING) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path}: {error}.", hint=_HINT, param=SETTING) from None


def _own_facts(path: str, number: int, row: _Row, shipped: Mapping[str, _Row], table: _Table) -> ModelFacts:
    name = row.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{path}: row {number} has no name.", hint=_HINT, param=SETTING)

    def wrong(what: str) -> ConfigurationError:
        return ConfigurationError(f"{path}: the model “{name}”: {what}.", hint=_HINT, param=SETTING)

    base = shipped.get(name)
    provider = row.get("provider", base["provider"] if base is not None else None)
    if provider not in table.unknown:
        raise wrong(f"its provider is one of {', '.join(table.unknown)}")
    if base is None or base["provider"] != provider:
        base = table.unknown[str(provider)]
    try:
        return _facts(_over(base, {**row, "provider": provider})).facts(table.image_rules, known=True)
    except (msgspec.ValidationError, ValueError) as error:
        raise wrong(str(error)) from None


def _over(base: _Row, row: _Row) -> _Row:
    """`row` over `base`. A partial price keeps the rest. Other markers have their own lifetimes."""
    made = {**base, **row}
    old, new = base.get("price"), row.get("price")
    if isinstance(old, dict) and isinstance(new, dict):
        made["price"] = {**old, **new}
    if "markers" in row and "lives" not in row and row["markers"] != base.get("markers"):
        made["lives"] = {"anthropic": ["5m", "1h"], "openai": ["30m"]}.get(str(row["markers"]), ["5m"])
    return made


def row_of(facts: ModelFacts) -> dict[str, object]:
    """The row of a model's facts, in the form of a deployment's own file."""
    rules = _shipped().image_rules
    row: dict[str, object] = msgspec.to_builtins(facts)
    for name in ("protocol", "known"):
        del row[name]
    row["images"] = next((name for name, rule in rules.items() if rule == facts.images), None)
    row["responses"] = facts.protocol == WireProtocol.RESPONSES
    if facts.protocol not in SHIPPED_WIRES:
        row["wire"] = facts.protocol
    return row
