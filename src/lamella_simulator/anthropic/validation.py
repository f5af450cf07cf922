"""Parameters that the Messages API refuses, in words close to its own; `history` judges the messages."""

from __future__ import annotations

import re
from typing import Any

from lamella_simulator.anthropic import editing
from lamella_simulator.anthropic.request import MessagesRequest
from lamella_simulator.anthropic.thinking import BETA
from lamella_simulator.blocks import Json
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.models import Model, find

MAX_BODY = 32_000_000
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
THINKING_FIELDS = {
    "adaptive": {"type", "display", "block_binding"},
    "enabled": {"type", "budget_tokens", "display", "block_binding"},
    "disabled": {"type"},
    "between_tools": {"type"},
}
CLEAR_AT_BETA = "mid-conversation-system-clear-at-2026-08-21"
OUTPUT_BETA = "mid-conversation-output-config-2026-07-01"
TURN_BETA = "per-turn-control-2026-07-01"
"""Claude Code sends this one."""
NOT_SIMULATED = ("container", "mcp_servers")
TOOL_KINDS = re.compile(r"custom|(bash|text_editor|memory|computer|web_search)_\d+")
"""Tools that the caller runs, and web search, which is offered and never called."""


def known_model(name: str) -> Model:
    model = find(name, "anthropic")
    if model is None:
        raise ProviderError(404, f"model: {name}")
    return model


def check_size(body: bytes) -> None:
    if len(body) > MAX_BODY:
        raise ProviderError(413, "Request exceeds the maximum size")


def check_parameters(request: MessagesRequest, model: Model, betas: frozenset[str], *, require_betas: bool) -> None:
    """Raises 400 for the first parameter that the API would refuse."""
    for name in NOT_SIMULATED:
        if getattr(request, name):
            raise invalid(f"{name}: the simulator does not model this feature, see docs/reference/simulator.md")
    if require_betas:
        check_message_betas(request, betas)
    editing.check(request, betas, require_betas=require_betas)
    editing.check_compaction(request, betas, require_betas=require_betas)
    if request.diagnostics is not None and set(request.diagnostics) - {"previous_message_id"}:
        raise invalid(
            f"diagnostics.{min(set(request.diagnostics) - {'previous_message_id'})}: Extra inputs are not permitted"
        )
    check_tools(request)
    check_thinking(request, model, betas, require_betas)
    check_tool_choice(request, model)
    check_effort("output_config", request.output_config)
    for index, message in enumerate(request.messages):
        check_effort(f"messages.{index}.output_config", message.output_config)


def check_effort(path: str, output: Json | None) -> None:
    effort = (output or {}).get("effort")
    if effort is not None and effort not in EFFORTS:
        raise invalid(f"{path}.effort: Input should be one of {', '.join(EFFORTS)}")


def check_message_betas(request: MessagesRequest, betas: frozenset[str]) -> None:
    """Fields of a message that only exist with a beta header."""
    for index, message in enumerate(request.messages):
        for name, value, named in (
            ("clear_at", message.clear_at, {CLEAR_AT_BETA}),
            ("output_config", message.output_config, {OUTPUT_BETA, TURN_BETA}),
        ):
            if value is not None and message.role == "system" and not named & betas:
                raise invalid(f"messages.{index}.{name}: Extra inputs are not permitted")


def check_max_tokens(request: MessagesRequest, model: Model) -> None:
    """Zero warms the cache and says nothing: not while streaming, forcing a tool, or with a thinking budget."""
    limit = request.max_tokens
    if limit is None:
        raise invalid("max_tokens: Field required")
    if limit < 0:
        raise invalid("max_tokens: Input should be greater than or equal to 0")
    if limit > model.max_output:
        raise invalid(
            f"max_tokens: {limit} > {model.max_output}, which is the maximum allowed number of output tokens for "
            f"{model.id}"
        )
    forced = (request.tool_choice or {}).get("type") in ("any", "tool")
    budget = (request.thinking or {}).get("type") == "enabled"
    if limit == 0 and (request.stream or forced or budget or (request.output_config or {}).get("format")):
        raise invalid("max_tokens: 0 cannot be combined with streaming, forced tools, output formats or a budget")


def check_tools(request: MessagesRequest) -> None:
    names: set[str] = set()
    if request.tools and all(tool.get("defer_loading") for tool in request.tools):
        raise invalid("tools: All tools have defer_loading set. At least one tool must be non-deferred.")
    for index, tool in enumerate(request.tools):
        name = tool.get("name")
        if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
            raise invalid(f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if name in names:
            raise invalid("tools: Tool names must be unique.")
        names.add(name)
        kind = str(tool.get("type") or "custom")
        if not TOOL_KINDS.fullmatch(kind):
            raise invalid(
                f"tools.{index}.type: the simulator has no {kind!r}: of the vendor's tools it takes those that the "
                "caller runs, and web_search, which it never calls"
            )
        if tool.get("defer_loading") and "cache_control" in tool:
            raise invalid(f"tools.{index}: Tool '{name}' cannot have both defer_loading=true and cache_control set.")
        if kind == "custom":
            schema = tool.get("input_schema")
            if not isinstance(schema, dict):
                raise invalid(f"tools.{index}.custom.input_schema: Field required")
            if schema.get("type") != "object":
                raise invalid(f"tools.{index}.custom.input_schema.type: Input should be 'object'")


def check_thinking(request: MessagesRequest, model: Model, betas: frozenset[str], require_betas: bool) -> None:
    thinking = request.thinking
    if thinking is None:
        return
    kind = thinking.get("type")
    if not isinstance(kind, str) or kind not in THINKING_FIELDS:
        raise invalid(f"thinking.type: Input should be one of {', '.join(sorted(THINKING_FIELDS))}")
    if kind not in model.thinking_types:
        better = "adaptive" if "adaptive" in model.thinking_types else "enabled"
        raise invalid(
            f'"thinking.type.{kind}" is not supported for this model. Use "thinking.type.{better}" and '
            '"output_config.effort" to control thinking behavior.'
        )
    unknown = set(thinking) - THINKING_FIELDS[kind]
    if "block_binding" in thinking and require_betas and BETA not in betas:
        unknown.add("block_binding")
    if unknown:
        raise invalid(f"thinking.{kind}.{min(unknown)}: Extra inputs are not permitted")
    check_binding(thinking.get("block_binding"))
    if kind == "enabled":
        check_budget(thinking.get("budget_tokens"), request.max_tokens)


def check_binding(binding: Any) -> None:
    if binding is None:
        return
    if not isinstance(binding, dict) or binding.get("prefix_mismatch_behavior") not in (
        None,
        "error",
        "drop_block",
    ):
        raise invalid("thinking.block_binding.prefix_mismatch_behavior: Input should be 'error' or 'drop_block'")


def check_budget(budget: Any, max_tokens: int | None) -> None:
    if not isinstance(budget, int) or budget < 1_024:
        raise invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if max_tokens is not None and budget >= max_tokens:
        raise invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")


def check_tool_choice(request: MessagesRequest, model: Model) -> None:
    choice = request.tool_choice
    if choice is None:
        return
    kind = choice.get("type")
    if kind not in ("auto", "any", "tool", "none"):
        raise invalid("tool_choice.type: Input should be one of auto, any, tool, none")
    if kind == "tool" and choice.get("name") not in [tool.get("name") for tool in request.tools]:
        raise invalid(f"Tool '{choice.get('name')}' not found in provided tools")
    if kind in ("any", "tool"):
        if not request.tools:
            raise invalid("tool_choice: tools must be given when a tool is forced")
        if not model.forced_tool_choice:
            raise invalid(f"tool_choice.type: '{kind}' is not supported for this model")
        if (request.thinking or {}).get("type", "disabled") != "disabled" or model.thinking == "always":
            raise invalid("Thinking may not be enabled when tool_choice forces tool use.")
