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
    """`virtual` stands still until it is moved; `system` is the machine's clock."""
    seed: int = 0
    """Seed of ids and signing key. Two runs with the same seed give the same bytes."""
    rate: Annotated[float, Meta(ge=0)] = 0.0
    """Streamed characters per second; 0 streams without a pause. The virtual clock ignores it."""
    chunk: AtLeastOne = 24
    """Characters of a streamed delta, unless the reply sets `chunk`."""
    ttft_ms: Number = 0
    """Milliseconds to the first token, unless the reply sets `ttft_ms`. A cache entry is readable from then on."""
    default_reply: str | None = None
    """Name of the reply for requests that name none and match none. Unset: quotes from the request."""
    keep_requests: Number = 500
    """Requests that the log (`GET /_sim/requests`) keeps; the oldest go first."""
    keep_request_bytes: Number = 256_000_000
    """Bytes of request bodies that the log keeps."""
    keep_entries: Number = 200_000
    """Cache entries that are kept; the least recently used go first."""
    rejected_key_prefix: str = "invalid"
    """A key that begins with this is a 401."""
    require_version: bool = False
    """A request to Messages without an `anthropic-version` header is a 400."""
    new_version_wants_bearer: bool = False
    """With `anthropic-version: 2026-10-21`, a key in `x-api-key` is a 401."""

    token_factor: Annotated[float, Meta(gt=0)] | None = None
    """Replaces every model's factor over o200k counts. Example: 1.0 counts exactly o200k."""
    image_tokens: Number = 1_500
    """Tokens of pictures whose size is not in the request (an address), and of other media."""
    most_images: AtLeastOne = 100
    """Pictures in one request. Both vendors take more on models with a large window."""
    message_overhead: Number = 4
    """Tokens of every message beyond its content."""
    block_overhead: Number = 0
    """Tokens of every block beyond its content."""
    count_drift: Annotated[float, Meta(ge=-1)] = 0.0
    """Error of the token counting endpoints: 0.02 counts 2 % more than is billed."""

    lookback_positions: AtLeastOne = 20
    """Positions that a marker looks back, its own included."""
    lookback_counts_thinking: bool = True
    """Thinking blocks count as positions of the look-back."""
    max_markers: Number = 4
    """`cache_control` markers in a request, the automatic one included."""
    renew_ancestors: bool = False
    """A deep hit also renews the shallower live entries of the same prefix."""
    upgrade_to_1h: bool = False
    """A 1h marker that hits a live 5m entry turns it into a 1h entry, without a charge."""
    thinking_salts_system: bool = False
    """A change of thinking mode or effort also loses the system part."""
    eviction_rate: Share = 0.0
    """Share of Anthropic's cache entries that are lost when they are written, chosen by hash and seed."""

    prefix_check_enforced: bool = True
    """The account has the prefix check (created since 31 Aug 2026): a changed prefix is a 400, unless the request asks
    for drop_block."""
    clear_at_may_vanish: bool = False
    """Removing a turn-scoped system message later does not break the prefix of thinking made after it."""
    missing_thinking_refused: bool = True
    """Inside a tool loop, a request without the running turn's thinking is refused."""
    assistant_may_begin: bool = False
    """A conversation may begin with a message of the model."""
    server_edits_break_prefix: bool = False
    """Clearing by the provider counts as a change before the thinking that comes after it."""
    on_demand_in_totals: bool = True
    """The top-level counters include a requested compaction; if false, only `iterations` has it."""
    diagnostics_pending: bool = False
    """A diagnosis is answered as still pending."""
    require_beta_headers: bool = True
    """Fields that exist only under a beta header are unknown without it."""

    openai_minimum: Number = 1_024
    """Tokens of the shortest prompt that models from GPT-5.6 on cache."""
    openai_ending_lookback: Number = 20
    """Earlier message endings at which implicit caching may match."""
    openai_first_breakpoints: Number = 2
    """Explicit breakpoints from the front at which a request may match."""
    openai_latest_breakpoints: Number = 50
    """Latest explicit breakpoints at which a request may match. The guide says 50, the API reference 80."""
    openai_implicit_writes_developer: bool = False
    """The implicit mode also writes the end of the initial developer block."""
    openai_compaction_in_usage: bool = True
    """The usage of a response with in-line compaction has the tokens of both passes. Both are billed either way."""
    openai_reasoning_content: bool = False
    """Show scripted reasoning as `reasoning_content`, as compatible servers do. OpenAI itself does not."""
    legacy_idle_seconds: Number = 600
    """Seconds after its last use that a cached step of an older model lives."""
    legacy_requests_per_key: Number = 0
    """Requests a minute with one prompt_cache_key above which an older model misses its cache; 0 is no limit."""

    requests_per_minute: Number = 0
    """Requests a minute of one account; 0 is no limit."""
    input_tokens_per_minute: Number = 0
    """Input tokens a minute of one account; 0 is no limit. Anthropic's cache reads do not count."""

    engine: Literal["off", "tokens", "blocks"] = "off"
    """Replaces the vendors' cache rules by those of an engine: `tokens` reads any common token prefix (llama.cpp,
    SGLang), `blocks` whole blocks of tokens (vLLM)."""
    engine_block: AtLeastOne = 16
    """Tokens of a block."""
    engine_capacity: AtLeastOne = 1_000_000
    """Tokens that the engine's cache holds; the least recently used go first."""
    engine_tokenizer: str | None = None
    """Path of a `tokenizer.json`, read with the package `tokenizers`. Unset: o200k."""


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
