"""The settings that the engine reads: turns, sessions and the queue.

Each is declared once, here, with its default and what it means. `lamella.settings.Settings` adds those of a deployment
and reads all of them from the environment and `lamella.toml`. An `EngineSettings` made in code reads neither:

    EngineSettings(context_budget=120_000, titles=False)
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, field_validator
from pydantic_settings import NoDecode

from lamella.core.errors import InvalidRequest
from lamella.core.models import EFFORT_CHOICES, OFF, ModelFacts, effort_named
from lamella.core.records import Retention
from lamella.core.tokens import Threshold, tokens_written

Tokens = Annotated[int, BeforeValidator(lambda value: tokens_written(value) if isinstance(value, str) else value)]
"""Tokens, as people write them."""

Limit = Annotated[
    Threshold,
    NoDecode,
    BeforeValidator(lambda value: Threshold.of(str(value)) if isinstance(value, str | int) else value),
    WithJsonSchema({"type": "string"}),
]
"""A share of the budget, or tokens."""


class EngineSettings(BaseModel):
    """Sizes in tokens."""

    @field_validator("thinking_effort", mode="before")
    @classmethod
    def _is_an_effort(cls, value: object) -> str:
        try:
            return effort_named(str(value))
        except InvalidRequest:
            raise ValueError(f"it is none of {EFFORT_CHOICES}") from None

    context_budget: Tokens | None = Field(
        default=None,
        ge=1000,
        description="The largest prompt, in tokens. Unset: the model's window minus the reserved output.",
    )
    max_output: Tokens = Field(default=16_000, ge=16, description="The longest answer, in tokens.")
    thinking_effort: str = Field(
        default=OFF,
        description="How much the model thinks: off, low (1024), medium (4096), high (16384) or a number of tokens. "
        "Agents, conversations and messages can override it.",
    )
    fallback_model: str | None = Field(
        default=None, description="The model that answers a turn if its own model fails before the answer begins."
    )
    step_limit: int = Field(
        default=12, ge=1, le=100, description="Steps of one turn: requests to its model, without repeated ones."
    )
    reminder: str | None = Field(default=None, description="A text that stands last in every request.")
    cache_enabled: bool = Field(
        default=True, description="Set cache markers. If false, providers that cache automatically still do."
    )
    cache_diagnostics: bool = Field(
        default=True,
        description="Ask vendors that can say why their cache was missed. The request then has their id of the answer "
        "before.",
    )
    cache_ttl: Literal["5m", "1h"] | None = Field(
        default=None,
        description="Lifetime of marked content at Anthropic. Unset: the planner chooses, other policies use 5m. At "
        "OpenAI it is always 30 minutes.",
    )
    dynamic_context_form: Literal["pays", "kept", "late"] = Field(
        default="pays",
        description="Place of dynamic context in layout lamella: `kept` after its question, `late` (last in each "
        "request), or `pays` (decided by price for each session). Models that bind thinking use `kept`.",
    )
    tool_summarization_policy: Literal["auto", "keep_all", "keep_none"] = Field(
        default="auto",
        description="Which old tool results stay until a compaction: as each tool says (`auto`), all, or none.",
    )
    tool_prune_when: Literal["full", "pays"] = Field(
        default="pays",
        description="When old tool results are pruned automatically: `full` (above the threshold) or `pays` (also if "
        "the model's prices make it pay). Layout lis uses the threshold only.",
    )
    tool_prune_threshold: Tokens | None = Field(
        default=None,
        ge=0,
        description="Tokens of tool results above which they are pruned. Unset: 8000 with `full`, no limit with "
        "`pays`.",
    )
    tool_keep_threshold: Tokens = Field(
        default=2_000, ge=0, description="Tokens of the newest tool results that pruning keeps."
    )
    keep_recent_tokens: Tokens = Field(
        default=4_000, ge=0, description="Tokens of the newest messages that a compaction keeps word for word."
    )
    compaction_threshold: Limit = Field(
        default=Threshold(share=0.8),
        description="Size of the last prompt above which a window is compacted: a share of the budget, or tokens.",
    )
    compaction_when: Literal["full", "balanced", "pays"] = Field(
        default="balanced",
        description="When a window is compacted automatically: `full` (above the threshold), `balanced` (also if the "
        "model's prices make it pay, but not below the floor) or `pays` (whenever it pays: the cheapest, but detail "
        "is lost early). Layout lis uses the threshold only.",
    )
    compaction_floor: Limit | None = Field(
        default=None,
        description="With `balanced`, the size below which no window is compacted automatically: a share of the "
        "budget, or tokens. Unset: 40% of the budget, 100k at most.",
    )
    compaction_automatic: bool = Field(
        default=True,
        description="Prune and compact between turns without being asked. If false: on request, and for a message that "
        "does not fit.",
    )
    compaction_notify: bool = Field(default=True, description="Tell users about automatic pruning and compaction.")
    titles: bool = Field(
        default=True,
        description="Let a model write the titles of conversations: the model for summaries, else the conversation's "
        "own. If false, and in the demonstration, a title is the first words.",
    )
    resume_token_budget: Limit = Field(
        default=Threshold(share=0.7),
        description="The largest session that is resumed in full: a share of the budget, or tokens.",
    )
    resume_timeout: float = Field(
        default=300.0,
        ge=0,
        description="Seconds that `/resume` waits for the summary of a session that is too large and has none. After "
        "that it resumes in full.",
    )
    journal_minutes: int = Field(
        default=60,
        ge=1,
        le=100_000,
        description="Minutes after the end of a turn for which its packets lie in the journal as they were sent. Then "
        "they are packed: only what the stored messages don't tell is kept of them. Clients get the same packets.",
    )
    keep_packets_days: int | None = Field(
        default=None,
        ge=1,
        le=36_500,
        description="Days that the packets of a turn are kept after its end. Its messages stay. Unset: for good.",
    )
    keep_requests_days: int | None = Field(
        default=None,
        ge=1,
        le=36_500,
        description="Days that the body of a request is kept. Its figures and fingerprints stay. Unset: for good.",
    )
    debounce_ms: int | None = Field(
        default=None,
        ge=0,
        le=60_000,
        description="Milliseconds that a message waits for more before it is answered. Unset: 0, but 3000 for "
        "messages that come during an answer.",
    )
    queue_limit: int = Field(default=50, ge=1, le=1_000, description="Messages that may wait in one conversation.")

    @property
    def retention(self) -> Retention:
        """How long packets and request bodies are kept."""
        return Retention(self.keep_packets_days, self.keep_requests_days, self.journal_minutes)

    @property
    def reminders(self) -> tuple[str, ...]:
        """The texts that stand last in every request."""
        return (self.reminder,) if self.reminder else ()

    def output(self, facts: ModelFacts) -> int:
        """The most tokens that one answer may have."""
        return min(self.max_output, facts.max_output)

    def budget(self, facts: ModelFacts) -> int:
        """See `budget_of`."""
        return budget_of(facts, self.context_budget, self.max_output)


def budget_of(facts: ModelFacts, most: int | None, max_output: int) -> int:
    """The most tokens that a prompt may have: the window less the reserved output, or the setting `most` if lower."""
    free = facts.window - min(max_output, facts.max_output)
    return min(most, free) if most else free
