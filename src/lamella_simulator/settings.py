"""Every option of the simulator, one frozen dataclass: the undocumented points of the vendors are named here."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

Number: TypeAlias = Annotated[int, Meta(ge=0)]
AtLeastOne: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults are the documented behaviour, or the reading that is harder on the caller."""

    clock: Literal["virtual", "system"] = "virtual"
    """Time that stands still until it is moved, or the machine's."""
    seed: int = 0
    """Seeds the ids and the signing key, so that two runs give the same bytes."""
    rate: Annotated[float, Meta(ge=0)] = 0.0
    """Streamed characters per second; 0 streams without a pause. Ignored by the virtual clock."""
    chunk: AtLeastOne = 24
    """Characters in one streamed delta of a reply that names no other number."""
    ttft_ms: Number = 0
    """Milliseconds to the first token of a reply that names none; a cache entry is readable from then on."""
    default_reply: str | None = None
    """The scripted reply of a request that names none and matches none; unset lets the answerer speak."""
    keep_requests: Number = 500
    """Requests in the log that `GET /_sim/requests` shows; the oldest go first."""
    keep_request_bytes: Number = 256_000_000
    """Bytes of their bodies."""
    keep_entries: Number = 200_000
    """Entries of the vendors' caches; those that were used longest ago go first."""
    rejected_key_prefix: str = "invalid"
    """A key that begins with it is a 401."""
    require_version: bool = False
    """The Messages API without an `anthropic-version` header is a 400."""
    new_version_wants_bearer: bool = False
    """With `anthropic-version: 2026-10-21` a key in `x-api-key` is a 401."""

    token_factor: Annotated[float, Meta(gt=0)] | None = None
    """Replaces every model's factor over o200k counts."""
    image_tokens: Number = 1_500
    """For pictures whose size the request does not show (an address), and for other media."""
    most_images: AtLeastOne = 100
    """Of one request. Both vendors take more on models with a large window."""
    message_overhead: Number = 4
    """Tokens that every message costs beyond its content."""
    block_overhead: Number = 0
    """Tokens that every block costs beyond its content."""
    count_drift: Annotated[float, Meta(ge=-1)] = 0.0
    """Share by which the token counting endpoints are off: 0.02 counts 2 % more than is billed."""

    lookback_positions: AtLeastOne = 20
    """Positions that a marker looks at, its own included."""
    lookback_counts_thinking: bool = True
    """Thinking blocks take places in the look back."""
    max_markers: Number = 4
    """`cache_control` markers in a request, the automatic one included."""
    renew_ancestors: bool = False
    """A deep hit also renews the shallower live entries of the same prefix."""
    upgrade_to_1h: bool = False
    """A 1h marker that hits a live 5m entry turns it into a 1h entry, unbilled."""
    thinking_salts_system: bool = False
    """A change of thinking mode or effort also loses the system level."""
    eviction_rate: Share = 0.0
    """Share of Anthropic's cache entries that are lost at birth, chosen by hash and seed."""

    prefix_check_enforced: bool = True
    """The account was created since 31 Aug 2026: a changed prefix is a 400 unless the request asks for drop_block."""
    clear_at_may_vanish: bool = False
    """Removing a turn-scoped system message later does not break the prefix of thinking made after it."""
    missing_thinking_refused: bool = True
    """Inside a tool loop the thinking of the running turn must come back."""
    assistant_may_begin: bool = False
    """A conversation whose first message is the model's is taken."""
    server_edits_break_prefix: bool = False
    """Clearing by the provider counts as a change before the thinking that comes after it."""
    on_demand_in_totals: bool = True
    """A compaction that was asked for is billed in the top-level counters; false puts it into `iterations` alone."""
    diagnostics_pending: bool = False
    """The answer to a diagnosis is still being worked out."""
    require_beta_headers: bool = True
    """Fields that exist only under a beta header are unknown without it."""

    openai_minimum: Number = 1_024
    """Tokens of the shortest prompt that models from GPT-5.6 on cache."""
    openai_ending_lookback: Number = 20
    """Earlier message endings at which implicit caching may match."""
    openai_first_breakpoints: Number = 2
    """Explicit breakpoints from the front at which a request may match."""
    openai_latest_breakpoints: Number = 50
    """The guide says 50, the API reference 80."""
    openai_implicit_writes_developer: bool = False
    """Implicit mode also writes the end of the initial developer block."""
    openai_compaction_in_usage: bool = True
    """The usage of a response that was compacted in line has the tokens of both passes; both are billed either way."""
    openai_reasoning_content: bool = False
    """Show scripted reasoning as `reasoning_content`, as compatible servers do; OpenAI itself does not."""
    legacy_idle_seconds: Number = 600
    """Life of a step of an older model since its last use."""
    legacy_requests_per_key: Number = 0
    """Requests a minute with one prompt_cache_key above which an older model's cache is missed; 0 is no limit."""

    requests_per_minute: Number = 0
    """Of one account; 0 is no limit."""
    input_tokens_per_minute: Number = 0
    """Of one account; 0 is no limit. Anthropic's cache reads do not count."""

    engine: Literal["off", "tokens", "blocks"] = "off"
    """Instead of the vendors' cache rules those of an engine: any common token prefix (llama.cpp, SGLang), or whole
    blocks of tokens (vLLM)."""
    engine_block: AtLeastOne = 16
    """Tokens of a block."""
    engine_capacity: AtLeastOne = 1_000_000
    """Tokens that the engine's cache holds; the least recently used go first."""
    engine_tokenizer: str | None = None
    """Path of a `tokenizer.json`, read with the package `tokenizers`; unset counts with o200k."""


def checked(values: Mapping[str, object], *, strict: bool = True) -> Settings:
    """Settings of these values, by name; not `strict`: numbers may come as texts.

    Raises msgspec.ValidationError for a name that there is not, a wrong value, and a tokenizer that cannot be read.
    """
    known = [field.name for field in fields(Settings)]
    for name in values:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"do you mean {near[0]}?" if near else "docs/reference/simulator-options.md lists them."
            raise msgspec.ValidationError(f"no such option: {name}; {hint}")
    settings = msgspec.convert(dict(values), Settings, strict=strict)
    path = settings.engine_tokenizer
    if path is not None and not Path(path).is_file():
        raise msgspec.ValidationError(f"engine_tokenizer: there is no file {path}")
    if path is not None and importlib.util.find_spec("tokenizers") is None:
        raise msgspec.ValidationError(
            "engine_tokenizer: it is read with the package tokenizers, which is not installed"
        )
    return settings
