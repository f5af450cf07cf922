"""Every option of the simulator, one frozen dataclass: the undocumented points of the vendors are named here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults are the documented behaviour, or the reading that is harder on the caller (PROVIDERS 7, 9)."""

    clock: Literal["virtual", "system"] = "virtual"
    seed: int = 0
    """Seeds the ids and the signing key, so that two runs give the same bytes."""
    rate: float = 0.0
    """Streamed characters per second; 0 streams without a pause. Ignored by the virtual clock."""
    chunk: int = 24
    """Characters in one streamed delta."""
    ttft_ms: int = 0
    """Milliseconds to the first token of a reply that names none; a cache entry is readable from then on."""
    default_reply: str | None = None
    """The scripted reply of a request that names none; unset lets the answerer speak."""
    keep_requests: int = 500
    keep_request_bytes: int = 256_000_000
    rejected_key_prefix: str = "invalid"

    token_factor: float | None = None
    """Replaces every model's factor over o200k counts."""
    image_tokens: int = 1_500
    """For pictures whose size the request does not show (an address), and for other media."""
    most_images: int = 100
    """Of one request. Both vendors take more on models with a large window."""
    message_overhead: int = 4
    block_overhead: int = 0

    lookback_positions: int = 20
    lookback_counts_thinking: bool = True
    max_markers: int = 4
    renew_ancestors: bool = False
    """A deep hit also renews the shallower live entries of the same prefix."""
    upgrade_to_1h: bool = False
    """A 1h marker that hits a live 5m entry turns it into a 1h entry, unbilled."""
    thinking_salts_system: bool = False
    """A change of thinking mode or effort also loses the system level."""
    eviction_rate: float = 0.0
    """Share of cache entries that are lost at birth, chosen by hash and seed."""

    prefix_check_enforced: bool = True
    """The account was created since 31 Aug 2026: a changed prefix is a 400 unless the request asks for drop_block."""
    clear_at_may_vanish: bool = False
    """Removing a turn-scoped system message later does not break the prefix of thinking made after it."""
    missing_thinking_refused: bool = True
    """Inside a tool loop the thinking of the running turn must come back."""
    require_beta_headers: bool = True

    openai_minimum: int = 1_024
    openai_ending_lookback: int = 20
    openai_first_breakpoints: int = 2
    openai_latest_breakpoints: int = 50
    """The guide says 50, the API reference 80."""
    openai_implicit_writes_developer: bool = False
    """Implicit mode also writes the end of the initial developer block."""
    openai_reasoning_content: bool = False
    """Show scripted reasoning as `reasoning_content`, as compatible servers do; OpenAI itself does not."""
    legacy_idle_seconds: int = 600

    requests_per_minute: int = 0
    input_tokens_per_minute: int = 0
    """0 is no limit; cache reads do not count (PROVIDERS 1.1)."""
