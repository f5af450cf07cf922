"""What a Responses request asks beside its message: what of it this server does, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lamella.chat.message import ExecutionRequest
from lamella.core.errors import InvalidRequest
from lamella.core.json import Json

RESPONSE, TURN = "resp_", "turn_"
"""A response is named as its turn, with another prefix."""

SAYS_NOTHING = frozenset(
    {"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"}
)
"""What only a provider has a use for. Who asks is said by the key, and what is cached is planned here."""

AS_EVER: Mapping[str, tuple[Json, ...]] = {
    "store": (True,),
    "background": (False,),
    "parallel_tool_calls": (True,),
    "tools": ([],),
    "tool_choice": ("auto",),
    "truncation": ("disabled",),
    "service_tier": ("auto", "default"),
    "include": ([],),
    "text": ({"format": {"type": "text"}}, {}),
}
"""Fields that may say what is done anyway; null says so of any field."""

INSTEAD = {
    "instructions": "Make an agent of them and name its agent_id, or send them as dynamic_context.",
    "store": "Every turn is stored; delete its conversation afterwards.",
    "tools": "Tools are the server's: those of the deployment and its MCP servers.",
    "max_output_tokens": "LAMELLA_MAX_OUTPUT limits answers.",
}

EFFORTS = {"none": "off", "minimal": "low"}
"""Efforts of the API that are called otherwise here."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with what its body said in its fields, whether its answer streams, and the turn that it follows."""

    request: ExecutionRequest
    streams: bool
    after: str | None


def asked_of(request: ExecutionRequest) -> Asked:
    """What a body asks; raises `InvalidRequest` for what this server does not do: nothing is passed over in silence."""
    fields = {name: value for name, value in request.body_fields.items() if value is not None}
    streams, previous = fields.pop("stream", False), fields.pop("previous_response_id", None)
    fields.pop("stream_options", None)
    effort = _effort(fields.pop("reasoning", None))
    if not isinstance(streams, bool):
        raise InvalidRequest("“stream” is true or false.", hint="Send one of them.", param="stream")
    for name, value in fields.items():
        if name not in SAYS_NOTHING and value not in AS_EVER.get(name, ()):
            raise InvalidRequest(
                f"“{name[:60]}” can't be set so here.", hint=INSTEAD.get(name, "Leave it out."), param=name[:60]
            )
    if len(request.models) > 1:
        raise InvalidRequest(
            "A response is one model's.",
            hint="Name one; several answer by POST /api/v1/conversations/{conversation_id}/turns, as `models`.",
            param="models",
        )
    chosen = replace(request, thinking_effort=request.thinking_effort or effort)
    return Asked(chosen, streams, _turn_id(previous, request) if previous is not None else None)


def _effort(reasoning: Json) -> str | None:
    """The effort of a `reasoning` object; its summary is streamed whatever it says."""
    if reasoning is None:
        return None
    if not isinstance(reasoning, Mapping) or set(reasoning) - {"effort", "summary", "generate_summary", "context"}:
        raise InvalidRequest("“reasoning” has an effort.", hint="Send {effort: …}.", param="reasoning")
    effort = reasoning.get("effort")
    return None if effort is None else EFFORTS.get(str(effort), str(effort))


def _turn_id(previous: Json, request: ExecutionRequest) -> str:
    if request.conversation_id is not None:
        raise InvalidRequest(
            "A request names its conversation or its previous response, not both.",
            hint="Leave one out.",
            param="previous_response_id",
        )
    if not isinstance(previous, str) or not previous.startswith(RESPONSE):
        raise InvalidRequest(
            f"A response's id begins with {RESPONSE}.", hint="Send it as it was given.", param="previous_response_id"
        )
    return TURN + previous.removeprefix(RESPONSE)
