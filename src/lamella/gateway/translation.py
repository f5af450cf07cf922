"""Translates a request into the API of another vendor, so that any client can use any model.

    made = translated(Dialect.CHAT, body, Dialect.MESSAGES, "claude-opus-5-5", facts)
    made.body       # what the upstream gets
    made.notes      # ("Translated from Chat Completions to Messages.", "seed: the other API has no such field")
    made.names      # the caller's names of tools, by their names there

The same request gives the same bytes, and a request that goes on from another begins with that one's messages, byte for
byte, so the provider's cache works. Each message is translated by itself: nothing depends on what follows it. Whatever
could not be carried as it was is a note. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, assert_never

from msgspec import UNSET

from lamella.core.json import Json, JsonObject, encode, encode_text
from lamella.core.messages import Image, Part, Reasoning, Text, ToolCall, ToolResult
from lamella.core.models import EFFORT_LEVELS, OFF, ModelFacts, RequestedThinking, Thinking, asked_thinking
from lamella.core.prompt import (
    Kind,
    Lifetime,
    Marker,
    PromptMessage,
    Role,
    Segment,
    ToolSpec,
    Ttl,
    WireBlock,
    WireRequest,
    Zone,
)
from lamella.gateway.canonical import INSTRUCTIONS, SYSTEM_CLOSE, SYSTEM_OPEN, ClientRequest, arguments_of, is_object
from lamella.gateway.client_settings import ClientSettings, refused
from lamella.gateway.dialects import PLACED, Dialect
from lamella.gateway.reading import read_request
from lamella.llm import anthropic_wire, openai_wire, responses_wire
from lamella.llm.responses_wire import ReasoningSeal
from lamella.llm.wire_blocks import wire_call_id, wire_tool_name

TITLES = {
    Dialect.MESSAGES: "Messages",
    Dialect.CHAT: "Chat Completions",
    Dialect.RESPONSES: "Responses",
    Dialect.EMBEDDINGS: "Embeddings",
}
_WIRES: Mapping[Dialect, Any] = {
    Dialect.MESSAGES: anthropic_wire,
    Dialect.CHAT: openai_wire,
    Dialect.RESPONSES: responses_wire,
}
MOST_MARKERS = 4
LEAST_RESPONSE = 16
"""The smallest limit of an answer that Responses takes."""

BEGINNING = -2
"""In place of a message's number: one that stands for the user's first."""

NO_USER = f"{SYSTEM_OPEN}\nThe conversation begins with no message of the user.\n{SYSTEM_CLOSE}"
_Kept = tuple[int, Role, list[tuple[int, Part]]]
"""A message's number, its role, and the parts that are sent, each with its place."""

_NEAREST = {"minimal": "low", "xhigh": "high", "max": "high"}
"""Efforts that not every vendor has, and the nearest that all have."""

_FINGERPRINT = 9
"""Characters that the end of a changed name has: names that differ stay different."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A request of the API `caller` in the API `dialect` of its upstream. `names` are the caller's names of tools, by
    their names there.
    """

    caller: Dialect
    request: ClientRequest
    dialect: Dialect
    body: bytes
    notes: tuple[str, ...]
    names: Mapping[str, str]


def translated(caller: Dialect, body: JsonObject, dialect: Dialect, model: str, facts: ModelFacts) -> Translation:
    """The request of a body in another API. Raises `InvalidRequest` with the place of what can't be carried."""
    request = read_request(caller, body, tags_system=dialect is Dialect.MESSAGES)
    fitting = _Fitting(dialect, model)
    blocks, markers = fitting.blocks(request)
    head = {"model": model, "stream": True, **fitting.head(request, facts)}
    made = _WIRES[dialect].body_of(WireRequest(head, blocks, markers))
    for tool, spec in zip(made.get("tools", ()), request.tools, strict=True):
        if spec.name in request.settings.strict_tools:
            (tool["function"] if dialect is Dialect.CHAT else tool)["strict"] = True
    notes = [f"Translated from {TITLES[caller]} to {TITLES[dialect]}."]
    notes += _together([*request.changes, *fitting.changes])
    return Translation(caller, request, dialect, encode(made), tuple(notes), fitting.names)


def _together(changes: Sequence[str]) -> Iterator[str]:
    """Changes of one kind as one: a long conversation has the same in many places."""
    places: dict[str, list[str]] = {}
    for change in changes:
        place, _, what = change.partition(": ")
        places.setdefault(what, []).append(place)
    for what, (first, *more) in places.items():
        yield f"{first}{f' and {len(more)} more' if more else ''}: {what}"


def plain_name(name: str, longest: int) -> str:
    """A tool's name in the letters that every vendor takes. One that changes ends with a fingerprint of itself."""
    if wire_tool_name(name, longest) == name:
        return name
    return f"{wire_tool_name(name, longest - _FINGERPRINT)}_{blake2b(name.encode(), digest_size=4).hexdigest()}"


class _Fitting:
    """Makes a request fit one API, and collects what changed."""

    def __init__(self, dialect: Dialect, model: str) -> None:
        self.changes: list[str] = []
        self.names: dict[str, str] = {}
        self._dialect, self._model = dialect, model
        self._wire = _WIRES[dialect]

    def _change(self, place: str, what: str) -> None:
        self.changes.append(f"{place}: {what}")

    # Blocks

    def blocks(self, request: ClientRequest) -> tuple[tuple[WireBlock, ...], tuple[Marker, ...]]:
        """The blocks of all parts, and the markers on them that the caller had set."""
        tools = tuple(self._tool(n, tool) for n, tool in enumerate(request.tools))
        system = self._kept(INSTRUCTIONS, PromptMessage("system", tuple(map(Text, request.instructions))))
        made: list[WireBlock] = [*self._wire.blocks_of(_segment("tools", tools=tools))]
        ends: dict[tuple[int, int], int] = {}
        messages = [(n, one.role, self._kept(n, one)) for n, one in self._ordered(request.messages)]
        for number, role, kept in [(INSTRUCTIONS, "system", system), *self._begun(messages, made or system)]:
            message = PromptMessage(role, tuple(part for _, part in kept))
            new = list(self._wire.blocks_of(_segment(f"message {number}", message, fixed=number == INSTRUCTIONS)))
            if len(new) == len(kept):
                ends |= {(number, place): len(made) + n for n, (place, _) in enumerate(kept)}
            made += new
        return tuple(made), self._markers(request, made, ends)

    def _ordered(self, messages: Sequence[PromptMessage]) -> list[tuple[int, PromptMessage]]:
        """The messages with results directly after their calls. Only Responses lets others stand between them."""
        numbered = list(enumerate(messages))
        if self._dialect is Dialect.RESPONSES:
            return numbered
        found: list[tuple[int, PromptMessage]] = []
        while numbered:
            number, message = numbered.pop(0)
            found.append((number, message))
            calls = {part.id for part in message.parts if isinstance(part, ToolCall)}
            late = [one for one in numbered if calls and _answers(one[1], calls)]
            if late != numbered[: len(late)]:
                self._change(f"message {late[-1][0] + 1}", "results that came later follow their calls")
            found += late
            numbered = [one for one in numbered if one not in late]
        return found

    def _begun(self, messages: list[_Kept], before: Sequence[object]) -> list[_Kept]:
        """The messages, of which the first is the user's: Anthropic refuses others. What follows the first does not
        matter, so that requests which go on keep their beginning.
        """
        is_users = bool(messages) and messages[0][1] != "assistant" and bool(messages[0][2])
        if self._dialect is not Dialect.MESSAGES or is_users or not (messages or before):
            return messages
        self._change("messages", "the user's first message is missing, and one in tags stands for it")
        return [(BEGINNING, "user", [(0, Text(NO_USER))]), *messages]

    def _tool(self, number: int, tool: ToolSpec) -> ToolSpec:
        return replace(tool, name=self._name(f"tools.{number}", tool.name))

    def _name(self, place: str, name: str) -> str:
        plain = plain_name(name, self._wire.LONGEST_NAME)
        if plain != name:
            self.names[plain] = name
            self._change(place, "the name of a tool is not one that the upstream takes, and is sent as another")
        return plain

    def _kept(self, number: int, message: PromptMessage) -> list[tuple[int, Part]]:
        """The parts of a message that are sent, each with its place."""
        place = "instructions" if number == INSTRUCTIONS else f"message {number + 1}"
        is_answer = message.role == "assistant"
        parts = ((n, part) for n, part in enumerate(message.parts) if not (is_answer and part == Text("")))
        fitted = ((n, self._part(place, part)) for n, part in parts)
        return [(n, part) for n, part in fitted if part is not None]

    def _part(self, place: str, part: Part) -> Part | None:
        match part:
            case Text(text) if self._dialect is Dialect.MESSAGES and not text.strip():
                self._change(place, "an empty text is left out")
                return None
            case Reasoning() if not self._is_native(part):
                self._change(place, "thinking that is not the upstream's own is left out")
                return None
            case ToolCall():
                return self._call(place, part)
            case ToolResult():
                return self._result(place, part)
            case Image(url=url, is_pdf=True) if url and self._dialect is Dialect.CHAT:
                raise refused(place, "a PDF at an address can't be carried to Chat Completions", "Send its bytes.")
            case Text() | Reasoning() | Image():
                return part
            case _:
                assert_never(part)

    def _is_native(self, part: Reasoning) -> bool:
        """Whether the upstream's own vendor sealed it, for this model: OpenAI refuses what another one has sealed, and
        Anthropic leaves that out by itself.
        """
        seal = ReasoningSeal.read(part.signature) if part.signature is not None else None
        if self._dialect is Dialect.RESPONSES:
            return seal is not None and part.redacted is not None and seal.model in (UNSET, self._model)
        return self._dialect is Dialect.MESSAGES and seal is None and bool(part.signature or part.redacted)

    def _call(self, place: str, call: ToolCall) -> ToolCall:
        self._id(place, call.id)
        call = replace(call, name=self._name(place, call.name))
        if self._dialect is Dialect.MESSAGES and not is_object(call.arguments):
            if call.arguments.strip():
                self._change(place, "arguments that are no JSON object are sent as the field “arguments” of one")
            return replace(call, arguments=encode_text(arguments_of(call.arguments)))
        return call

    def _result(self, place: str, result: ToolResult) -> ToolResult:
        self._id(place, result.call_id)
        if result.is_error and self._dialect is not Dialect.MESSAGES:
            self._change(place, "that a result is an error is not said")
        return result

    def _id(self, place: str, id: str) -> None:
        if wire_call_id(id, self._wire.LONGEST_CALL_ID) != id:
            self._change(place, "the id of a call is not one that the upstream takes, and is sent as another")

    def _markers(
        self, request: ClientRequest, blocks: Sequence[WireBlock], ends: Mapping[tuple[int, int], int]
    ) -> tuple[Marker, ...]:
        """The caller's markers, for Anthropic; OpenAI caches by itself."""
        if not request.marked:
            return ()
        if self._dialect is not Dialect.MESSAGES:
            self._change("cache_control", "markers are left out, since the upstream caches by itself")
            return ()
        found = sorted((ends[place], ttl) for place, ttl in request.marked.items() if place in ends)
        found = [(end, ttl) for end, ttl in found if blocks[end].markable]
        if len(found) > MOST_MARKERS:
            self._change("cache_control", f"the last {MOST_MARKERS} of {len(found)} markers are sent")
        if any(ttl is Ttl.THIRTY_MINUTES for _, ttl in found):
            self._change("cache_control", "a marker for 30 minutes is one for 5")
        lives = [(end, Ttl.FIVE_MINUTES if ttl is Ttl.THIRTY_MINUTES else ttl) for end, ttl in found[-MOST_MARKERS:]]
        return tuple(Marker(end, ttl, PLACED) for end, ttl in lives)

    # Head

    def head(self, request: ClientRequest, facts: ModelFacts) -> dict[str, Json]:
        """The fields of a body besides its model and its blocks."""
        settings = request.settings
        limit = self._limit(settings, facts)
        thinking = self._thinking(request, facts, limit or facts.max_output)
        match self._dialect:
            case Dialect.MESSAGES:
                head: dict[str, Json] = {"max_tokens": limit, **self._messages_thinking(request, thinking, facts)}
                if settings.answer_format:
                    head["output_config"] = {**_object(head.get("output_config")), "format": self._form(settings)}
            case Dialect.CHAT:
                head = {"stream_options": {"include_usage": True}, "max_completion_tokens": limit}
                head |= {"reasoning_effort": thinking.level, "verbosity": settings.verbosity or None}
                head["response_format"] = self._form(settings)
            case _:
                head = {"store": False, "max_output_tokens": limit, **_responses_thinking(thinking, facts)}
                text: dict[str, Json] = {"format": self._form(settings), "verbosity": settings.verbosity or None}
                head["text"] = _without_none(text) or None
        head |= self._sampling(settings, facts, thinks=bool(head.get("thinking")))
        head |= self._choice(request) if request.tools else {}
        self._left_out(settings)
        return _without_none(head)

    def _limit(self, settings: ClientSettings, facts: ModelFacts) -> int | None:
        limit = settings.max_output
        if limit is not None and limit < LEAST_RESPONSE and self._dialect is Dialect.RESPONSES:
            self._change("max_tokens", f"{LEAST_RESPONSE} is the least")
            return LEAST_RESPONSE
        if limit is None and self._dialect is Dialect.MESSAGES:
            self._change("max_tokens", f"the caller set none: the model's {facts.max_output}")
            return facts.max_output
        if limit is not None and facts.known and limit > facts.max_output:
            self._change("max_tokens", f"{limit} is more than the model's {facts.max_output}")
            return facts.max_output
        return limit

    def _thinking(self, request: ClientRequest, facts: ModelFacts, limit: int) -> RequestedThinking:
        settings = request.settings
        effort = _NEAREST.get(settings.effort or "", settings.effort or "")
        if not effort:
            return RequestedThinking()
        if effort != OFF and effort not in EFFORT_LEVELS and not effort.isdigit():
            self._change("effort", f"“{effort[:40]}” is not known and left out")
            return RequestedThinking()
        if effort != settings.effort:
            self._change("effort", f"“{settings.effort}” is “{effort}”")
        asked = asked_thinking(facts, effort, limit)
        if asked.without and self._dialect is not Dialect.MESSAGES:
            self._change("effort", "thinking can't be switched off")
        if asked.note:
            self._change("effort", asked.note)
        return asked

    def _messages_thinking(
        self, request: ClientRequest, asked: RequestedThinking, facts: ModelFacts
    ) -> dict[str, Json]:
        if asked.without or not (asked.budget or asked.level):
            return {"thinking": {"type": "disabled"}} if asked.without else {}
        why = "a tool must be called" if request.settings.tool_choice == "required" else ""
        if facts.thinking is Thinking.BUDGET and _calls_without_thinking(request.messages, self._is_native):
            why = "the calls that it goes on from came without thinking"
        if why:
            self._change("effort", f"no thinking is asked for, since {why}")
            return {}
        if asked.budget:
            return {"thinking": {"type": "enabled", "budget_tokens": asked.budget}}
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": asked.level}}

    def _sampling(self, settings: ClientSettings, facts: ModelFacts, *, thinks: bool) -> dict[str, Json]:
        heat, top, stop = settings.temperature, settings.top_p, settings.stop
        fixed = facts.thinking in (Thinking.ADAPTIVE, Thinking.ALWAYS) or thinks
        fixed = fixed or (self._dialect is not Dialect.MESSAGES and facts.thinking is not Thinking.NONE)
        if fixed and (heat is not None or top is not None):
            self._change("temperature" if heat is not None else "top_p", "a model that thinks takes none")
            heat = top = None
        if heat is not None and heat > 1 and self._dialect is Dialect.MESSAGES:
            self._change("temperature", "1 is the most")
            heat = 1
        if stop and self._dialect is Dialect.RESPONSES:
            raise refused("stop", "Responses has no stop sequences", "Leave them out, or use another model.")
        name = "stop_sequences" if self._dialect is Dialect.MESSAGES else "stop"
        return {"temperature": heat, "top_p": top, name: list(stop) or None}

    def _choice(self, request: ClientRequest) -> dict[str, Json]:
        settings = request.settings
        choice: str = settings.tool_choice
        tool = self._name("tool_choice", settings.tool) if settings.tool else ""
        if self._dialect is Dialect.MESSAGES:
            kind = "tool" if tool else {"required": "any"}.get(choice, choice)
            said = {
                "type": kind,
                "name": tool or None,
                "disable_parallel_tool_use": not settings.parallel_calls or None,
            }
            is_usual = kind == "auto" and settings.parallel_calls
            return {} if is_usual else {"tool_choice": _without_none(said)}
        named: Json = {"type": "function", "name": tool}
        if self._dialect is Dialect.CHAT:
            named = {"type": "function", "function": {"name": tool}}
        parallel = None if settings.parallel_calls else False
        return {"tool_choice": named if tool else None if choice == "auto" else choice, "parallel_tool_calls": parallel}

    def _form(self, settings: ClientSettings) -> Json:
        form = settings.answer_format
        if form is None:
            return None
        match self._dialect:
            case Dialect.MESSAGES:
                return {"type": "json_schema", "schema": form.get("schema")}
            case Dialect.CHAT:
                return {"type": "json_schema", "json_schema": form} if form else {"type": "json_object"}
            case _:
                return {"type": "json_schema", **form} if form else {"type": "json_object"}

    def _left_out(self, settings: ClientSettings) -> None:
        if self._dialect is Dialect.MESSAGES:
            if settings.answer_format == {}:
                self._change("response_format", "an answer of JSON without a schema can't be asked for")
            for name in ("verbosity", "cache_key"):
                if getattr(settings, name):
                    self._change(name, "the other API has no such field")


def _responses_thinking(asked: RequestedThinking, facts: ModelFacts) -> dict[str, Json]:
    if facts.thinking is Thinking.NONE:
        return {}
    effort = {"effort": asked.level} if asked.level else {}
    return {"include": ["reasoning.encrypted_content"], "reasoning": {**effort, "summary": "auto"}}


def _answers(message: PromptMessage, calls: Collection[str]) -> bool:
    """Whether a message has the result of one of these calls."""
    return any(isinstance(part, ToolResult) and part.call_id in calls for part in message.parts)


def _calls_without_thinking(messages: Sequence[PromptMessage], is_native: Any) -> bool:
    """Whether results follow an answer that has no thinking before its calls."""
    last = next((n for n, one in reversed(list(enumerate(messages))) if one.role == "assistant"), None)
    if last is None or all(one.role != "tool" for one in messages[last:]):
        return False
    first = next(iter(messages[last].parts), None)
    return not (isinstance(first, Reasoning) and is_native(first))


def _segment(
    id: str, message: PromptMessage | None = None, tools: tuple[ToolSpec, ...] = (), *, fixed: bool = True
) -> Segment:
    """One message, or the tools, as the wires take it."""
    return Segment(
        id=id,
        kind=Kind.TOOLS if message is None else Kind.SYSTEM if fixed else Kind.USER,
        zone=Zone.FIXED if fixed else Zone.HISTORY,
        lifetime=Lifetime.SESSION,
        source=id,
        owner="",
        label=id,
        letters="",
        tokens=0,
        digest="",
        messages=() if message is None else (message,),
        tools=tools,
    )


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _without_none(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if value is not None}
