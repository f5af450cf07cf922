"""The upstreams of the gateway: which server a client's request goes to, by its dialect and its model.

Without a file they are the configured providers. `LAMELLA_UPSTREAMS` names a TOML file with any number of them:

    [[upstream]]
    name = "work"
    url = "https://api.anthropic.com"
    key_variable = "ANTHROPIC_API_KEY"
    dialects = ["messages"]
    models = ["claude-*"]
    aliases = { "claude-haiku-*" = "claude-haiku-5-5", "fast" = "claude-haiku-5-5" }
    prices = { "claude-opus-*" = { input = 4.4, output = 22 } }

The first whose dialects, models and groups fit gets a request. An alias gives a model another name there; a `*` in it
stands for what the star of the caller's name stood for. If none fits, the first that names the model in another dialect
gets the request translated; `models = ["*"]` names none.
"""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from typing import Annotated, Literal

import msgspec

from lamella.app.providers import Providers
from lamella.core.errors import ConfigurationError, InvalidRequest, NotFound
from lamella.core.models import SHIPPED_WIRES, Price
from lamella.gateway.dialects import Dialect
from lamella.gateway.exchange import Route
from lamella.llm.model_table import ModelTable
from lamella.llm.upstream import Upstream
from lamella.storage.directory import CACHE_SALT, DirectoryRows

SETTING = "LAMELLA_UPSTREAMS"
DialectName = Literal["messages", "chat", "responses", "embeddings"]
_DIALECTS: Mapping[DialectName, Dialect] = {
    "messages": Dialect.MESSAGES,
    "chat": Dialect.CHAT,
    "responses": Dialect.RESPONSES,
    "embeddings": Dialect.EMBEDDINGS,
}
_PROVIDERS = {dialect: "anthropic" if dialect is Dialect.MESSAGES else "openai" for dialect in Dialect}
_PATHS = {
    Dialect.MESSAGES: "/v1/messages",
    Dialect.CHAT: "/chat/completions",
    Dialect.RESPONSES: "/responses",
    Dialect.EMBEDDINGS: "/embeddings",
}


NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class PriceRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What differs from the model table's price."""

    input: NotNegative | None = None
    output: NotNegative | None = None
    read: NotNegative | None = None
    write_5m: NotNegative | None = None
    write_1h: NotNegative | None = None
    tier_above: Annotated[int, msgspec.Meta(gt=0)] | None = None
    tier_factor: NotNegative | None = None


class UpstreamRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One upstream of the file. `url` is the base URL of the vendor's library there."""

    name: str
    url: str
    dialects: tuple[DialectName, ...]
    key: str = ""
    key_variable: str = ""
    models: tuple[str, ...] = ("*",)
    aliases: dict[str, str] = {}
    groups: tuple[str, ...] = ()
    cache_keys: bool = True
    prices: dict[str, PriceRow] = {}

    @property
    def spoken(self) -> tuple[Dialect, ...]:
        """The dialects that it speaks."""
        return tuple(_DIALECTS[name] for name in self.dialects)

    @property
    def translated(self) -> Dialect | None:
        """The dialect into which requests of another are translated: the first of a chat."""
        return next((dialect for dialect in self.spoken if dialect is not Dialect.EMBEDDINGS), None)

    def named(self, model: str, *, explicitly: bool = False) -> str | None:
        """The model's name there; None if it is not served there. `explicitly`: a `*` alone does not name it."""
        for pattern, name in sorted(self.aliases.items(), key=lambda one: "*" in one[0]):
            if (found := _matched(pattern, model)) is not None:
                return name.replace("*", found)
        patterns = [pattern for pattern in self.models if pattern != "*" or not explicitly]
        return model if any(_matched(pattern, model) is not None for pattern in patterns) else None

    def price(self, model: str, price: Price) -> Price:
        """The price of a model there, which has `price` in the model table. A name without a star goes first."""
        for pattern, own in sorted(self.prices.items(), key=lambda one: "*" in one[0]):
            if _matched(pattern, model) is not None:
                return replace(price, **msgspec.to_builtins(own))
        return price


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    upstream: tuple[UpstreamRow, ...]


def _matched(pattern: str, model: str) -> str | None:
    """What the star of a pattern stands for in a name; "" for a pattern without one, None if the name does not fit."""
    before, star, after = pattern.partition("*")
    found = re.fullmatch(f"{re.escape(before)}{'(.*)' if star else '()'}{re.escape(after)}", model)
    return found[1] if found else None


def read_upstreams(path: Path | None, environment: Mapping[str, str]) -> tuple[UpstreamRow, ...]:
    """The upstreams of a file, each with its key. Raises `ConfigurationError` for a file that can't be used."""
    if path is None:
        return ()
    hint = "docs/reference/upstreams.md has an example."
    try:
        rows = msgspec.convert(tomllib.loads(path.read_text()), _File).upstream
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}.", hint=hint, param=SETTING) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"{path}: {error}.", hint=hint, param=SETTING) from None
    found = []
    for row in rows:
        key = row.key or environment.get(row.key_variable, "")
        if row.key_variable and not key:
            raise ConfigurationError(
                f"{path}: the key of “{row.name}” is not set: {row.key_variable} is empty.", hint=hint, param=SETTING
            )
        if not row.url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"{path}: “{row.url}” of “{row.name}” is no HTTP address.", hint=hint, param=SETTING
            )
        found.append(msgspec.structs.replace(row, key=key))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Target:
    """A server, our key there, and the model's name there. `account` names the cache that it keeps for us."""

    provider: str
    url: str
    key: str
    account: str
    model: str
    dialect: Dialect
    row: UpstreamRow | None = None
    """Its row of the file, if it is of one."""


def _target(row: UpstreamRow, model: str, dialect: Dialect) -> _Target:
    account = f"{row.url}#{blake2b(row.key.encode(), digest_size=8).hexdigest()}"
    return _Target(row.name, row.url, row.key or "no-key", account, model, dialect, row)


async def _no_groups(user_id: str) -> frozenset[str]:
    return frozenset()


async def cache_salt(folder: Path, directory: DirectoryRows) -> bytes:
    """The secret with which owners are named to providers, made at the first time. Without it nobody can tell which
    owner a name stands for. All processes of a database share it; a file in the data folder has the one of before.
    """
    path = folder / CACHE_SALT
    known = await asyncio.to_thread(lambda: path.read_bytes() if path.exists() else b"")
    return await directory.shared_value(CACHE_SALT, known or token_bytes(32))


class Upstreams:
    """The upstreams of a deployment: those of its file, else its providers. Without any, the demonstration answers
    every name in every dialect. `timeout` is in seconds of silence. `groups_of` gives the names of a user's groups,
    without their case.
    """

    def __init__(
        self,
        rows: tuple[UpstreamRow, ...],
        providers: Providers | None,
        table: ModelTable,
        timeout: float,
        groups_of: Callable[[str], Awaitable[frozenset[str]]] | None = None,
    ) -> None:
        self._groups_of = groups_of or _no_groups
        self._rows = rows
        self._providers = providers
        self._table = table
        self._timeout = timeout
        self._connections: dict[str, Upstream] = {}

    async def find(self, dialect: Dialect, model: str, user_id: str = "") -> Route:
        """Where a user's requests to this model go; the route's dialect is another if they are translated. Raises
        `NotFound`.
        """
        if not self._rows:
            return self._route(await self._of_providers(dialect, model))
        has_groups = any(row.groups for row in self._rows)
        groups = await self._groups_of(user_id) if has_groups else frozenset()
        rows = [row for row in self._rows if not row.groups or groups & {name.casefold() for name in row.groups}]
        return self._route(self._of_file(rows, dialect, model))

    async def issuer(self, account: str | None) -> Route:
        """Where the responses are that the upstream of this account keeps; without an account those of the only
        upstream that speaks Responses. Raises `NotFound`.
        """
        if self._rows:
            rows = [row for row in self._rows if Dialect.RESPONSES in row.spoken]
            targets = {target.account: target for target in (_target(row, "", Dialect.RESPONSES) for row in rows)}
        elif self._providers is not None and not self._providers.is_demonstration:
            target = await self._of_providers(Dialect.RESPONSES, "")
            targets = {target.account: target}
        else:
            targets = {}
        if account is None and len(targets) == 1:
            [account] = targets
        if account is None or account not in targets:
            raise NotFound("No upstream of this server is known to keep this response.")
        return self._route(targets[account])

    def _route(self, target: _Target) -> Route:
        dialect = target.dialect
        facts = replace(self._table.facts(target.model, _PROVIDERS[dialect]), name=target.model)
        price = target.row.price(target.model, facts.price) if target.row is not None else facts.price
        own = price if target.row is not None else None
        facts = replace(facts, price=price)
        if target.url not in self._connections:
            self._connections[target.url] = Upstream(target.provider, target.url, self._timeout)
        connection = self._connections[target.url]
        takes_keys = target.row is None or target.row.cache_keys
        path = _PATHS[dialect]
        return Route(connection, path, target.key, target.model, target.account, facts, dialect, takes_keys, own)

    def _of_file(self, rows: Sequence[UpstreamRow], dialect: Dialect, model: str) -> _Target:
        own = [(row, dialect) for row in rows if dialect in row.spoken]
        others = [(row, row.translated) for row in rows if dialect is not Dialect.EMBEDDINGS]
        for row, spoken in (*own, *others):
            name = row.named(model, explicitly=spoken is not dialect)
            if name is not None and spoken is not None:
                return _target(row, name, spoken)
        raise NotFound(
            f"No upstream of this server has the model “{model[:80]}” in this API.",
            hint=f"The operator adds it to the file that {SETTING} names.",
            param="model",
        )

    async def _of_providers(self, dialect: Dialect, model: str) -> _Target:
        providers = self._providers
        spoken = self._spoken(providers, dialect, model) if providers is not None else dialect
        provider = _PROVIDERS[spoken]
        endpoint = await providers.endpoint(provider) if providers is not None else None
        if providers is None or endpoint is None:
            raise NotFound(
                f"No upstream of this server speaks to “{model[:80]}” in this API.",
                hint=f"The operator sets {provider.upper()}_API_KEY or {provider.upper()}_BASE_URL, or {SETTING}.",
                param="model",
            )
        is_unknown = providers.is_demonstration and model not in self._table.names()
        named = {"anthropic": "Anthropic", "openai": "OpenAI"}[provider]
        name = providers.default if is_unknown else model
        return _Target(named, endpoint.base_url, endpoint.key, endpoint.account, name, spoken)

    def _spoken(self, providers: Providers, dialect: Dialect, model: str) -> Dialect:
        """The dialect of the provider whose model it is; the caller's own if none that is configured is known to have
        it.
        """
        try:
            facts = providers.facts(model) if dialect is not Dialect.EMBEDDINGS else None
        except (InvalidRequest, ConfigurationError):
            facts = None
        if facts is None or providers.is_demonstration or facts.provider == _PROVIDERS[dialect]:
            return dialect
        return Dialect(facts.protocol) if facts.protocol in SHIPPED_WIRES else dialect

    def names(self) -> tuple[str, ...]:
        """The models that the file names without a star, for lists."""
        names = [name for row in self._rows for name in (*row.models, *row.aliases) if "*" not in name]
        return tuple(dict.fromkeys(names))

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            await connection.close()
