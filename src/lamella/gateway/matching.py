"""Which line a request belongs to: the one whose messages it goes on from, as the messages themselves say.

A session id groups requests and names no conversation: a title that a client asks for has the id of its chat. So the
chain of messages decides. A request that begins with all messages of a line's newest request is its next one. One that
shares an answer with it, or comes from the same program in the same session, was rewritten. All others begin a line.

    match(window, session, lines)      # Match(relation=Relation.NEXT, line=…, shared=4)

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from lamella.core.json import Json, decode, digest
from lamella.core.records import Line, RequestRecord
from lamella.gateway.dialects import ObservedWindow

CONVERSATION = "conversation"

REFUSED = "refused"
"""Labels a line of which the upstream took no request: it is no conversation until one of its requests is answered."""


class Relation(StrEnum):
    """How a request stands to the newest one of its line."""

    NEW = "new"
    """It begins a line."""

    NEXT = "next"
    """It begins with all messages of it, and has more."""

    AGAIN = "again"
    """It has the same messages."""

    BRANCH = "branch"
    """It goes on from an earlier answer of it: an older one of two, or the one before a message that was edited."""

    REWRITTEN = "rewritten"
    """Earlier messages are others: edited, left out, or replaced by a summary."""


@dataclass(frozen=True, slots=True)
class Match:
    """The line of a request; None for a new one. `shared` is the number of messages that both begin with, `after` the
    request that it goes on from, or is sent again of, if that is not the line's newest.
    """

    relation: Relation
    line: Line | None = None
    shared: int = 0
    after: RequestRecord | None = None


def match(window: ObservedWindow, session: str | None, lines: Sequence[Line]) -> Match:
    """The line among these candidates, newest first, that a request belongs to."""
    own = [one for one in lines if one.dialect == window.dialect and session in (None, one.session)]
    ended = [line for line in own if line.keys and line.keys == window.keys[: len(line.keys)]]
    if ended:
        return _follows(window, session, ended)
    shared = {line.id: _shared(window, line) for line in own}
    rewritten = [line for line in own if _is_rewritten(window, line, shared[line.id])]
    if rewritten:
        line = max(rewritten, key=lambda one: (shared[one.id], one.label == CONVERSATION))
        return Match(Relation.REWRITTEN, line, shared[line.id])
    if session is not None and window.has_tools:
        line_or_none = next((line for line in own if line.system == window.system and line.turns > 1), None)
        if line_or_none is not None:  # the client replaced its messages by a summary
            return Match(Relation.REWRITTEN, line_or_none, shared[line_or_none.id])
    return Match(Relation.NEW)


def _follows(window: ObservedWindow, session: str | None, ended: Sequence[Line]) -> Match:
    """The line with most messages; of those the one whose answer came back, then the newest."""
    most = max(len(line.keys) for line in ended)
    deepest = [line for line in ended if len(line.keys) == most]
    said = digest(window.texts[most].strip().encode()) if most < len(window.texts) else ""
    line = next((one for one in deepest if one.answer == said), deepest[0])
    if most < len(window.keys):
        return Match(Relation.NEXT, line, most)
    if session is None and "assistant" not in window.roles and line.answer:
        return Match(Relation.NEW)  # another conversation that begins with the same words
    return Match(Relation.AGAIN, line, most)


def answer_place(window: ObservedWindow, session: str | None) -> str:
    """The name of the answer that a request goes on from, with all messages before it; "" if there is none.

    A request without an answer is named by its messages, and only within a session: others begin alike.
    """
    start, said = window.newest_answer
    if said:
        return place_after(window, session, start, said)
    is_first = session is not None and window.keys and "assistant" not in window.roles
    return place_after(window, session, len(window.keys), "") if is_first else ""


def place_after(window: ObservedWindow, session: str | None, messages: int, said: str) -> str:
    """The name of an answer to so many messages of a window; with `said` "" that of the messages themselves."""
    before = window.keys[messages - 1] if messages else ""
    return "line " + digest(*(part.encode() for part in (window.dialect, session or "", before, said)))


def earlier(window: ObservedWindow, found: Match, line: Line, after: RequestRecord) -> Match:
    """The match of a request that goes on from the answer of `after`, a request of `line`, or begins as it does; as it
    was `found` if that is the newest one of a line.
    """
    start, said = window.newest_answer
    is_same = found.relation is Relation.AGAIN or (found.line is not None and found.line.request_id == after.id)
    if is_same or (found.relation is Relation.NEXT and said and found.shared > start):
        return found
    if not said:
        return Match(Relation.AGAIN, line, len(window.keys), after) if line.system == window.system else found
    return Match(Relation.NEXT if line.request_id == after.id else Relation.BRANCH, line, start, after)


def _is_rewritten(window: ObservedWindow, line: Line, shared: int) -> bool:
    """Whether a request has an answer of the line at the same place, or the newest one anywhere after its opening.

    What a line began with proves nothing: some clients begin every chat with the same example.
    """
    if "assistant" in window.roles[line.opening : shared]:
        return True
    later = zip(window.roles[max(0, line.opening - 1) :], window.texts[max(0, line.opening - 1) :], strict=True)
    return bool(line.answer) and any(role == "assistant" and answer_digest(text) == line.answer for role, text in later)


def _shared(window: ObservedWindow, line: Line) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(window.keys, line.keys, strict=False)))


def answer_digest(text: str) -> str:
    """The name of an answer's text, by which the line that it came from is found."""
    return digest(text.strip().encode()) if text.strip() else ""


# Who sends


_CLIENTS = (
    (re.compile(r"claude-cli/(\S+)"), "Claude Code"),
    (re.compile(r"codex[\w-]*/(\S+)"), "Codex"),
    (re.compile(r"opencode/(\S+)"), "opencode"),
    (re.compile(r"aider[/ ](\S+)"), "aider"),
    (re.compile(r"litellm/(\S+)"), "LiteLLM"),
    (re.compile(r"^ai/(\S+) ai-sdk"), "AI SDK"),
    (re.compile(r"ai-sdk/\S*?/(\S+)"), "AI SDK"),
    (re.compile(r"^Agents/Python (\S+)"), "openai-agents"),
    (re.compile(r"(?:Async)?OpenAI/Python (\S+)"), "openai for Python"),
    (re.compile(r"(?:Async)?OpenAI/JS (\S+)"), "openai for JavaScript"),
    (re.compile(r"(?:Async)?Anthropic/Python (\S+)"), "anthropic for Python"),
    (re.compile(r"Anthropic/JS (\S+)"), "anthropic for JavaScript"),
)

_OPEN_WEBUI_CHAT = "x-openwebui-chat-id"
"""Open WebUI names its chat so if it is told to. Its `User-Agent` is that of its HTTP library."""


def client_of(headers: Mapping[str, str]) -> str:
    """The name and version of the program that sent a request, by its `User-Agent` or a header of its own."""
    if headers.get(_OPEN_WEBUI_CHAT):
        return "Open WebUI"
    user_agent = headers.get("user-agent", "")
    for pattern, name in _CLIENTS:
        if found := pattern.search(user_agent):
            return f"{name} {found[1].rstrip('(),;')}"
    first = user_agent.split()[0] if user_agent.split() else ""
    return first.replace("/", " ")[:60] or "unnamed"


_SESSION_HEADERS = (
    "x-claude-code-session-id",
    "x-session-id",
    "session-id",
    "session_id",
    "x-conversation-id",
    _OPEN_WEBUI_CHAT,
)
_LONGEST = 200


def session_of(headers: Mapping[str, str], body: Mapping[str, Json]) -> str | None:
    """The id by which a client names its session: in a header, in `metadata.user_id`, or as the key of its cache."""
    for name in _SESSION_HEADERS:
        if headers.get(name):
            return headers[name][:_LONGEST]
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    if isinstance(user, str) and user.startswith("{"):
        try:
            told = decode(user)
        except ValueError:
            told = None
        if isinstance(told, Mapping) and isinstance(told.get("session_id"), str):
            return str(told["session_id"]).replace("\0", "")[:_LONGEST] or None
    key = body.get("prompt_cache_key")
    return key.replace("\0", "")[:_LONGEST] or None if isinstance(key, str) else None


_TASK = re.compile(r"\A\s*#+ ?Task:?\s*\n")
_TAG = re.compile(r"\s*<([\w:.-]+)[^>]*>")


_CONTEXT_ENDS = "\n</context>\n"
"""Open WebUI puts what it found in files and on the web before a message, in a `### Task:` that ends so."""


def title_of_message(text: str) -> str:
    """What a person wrote of a user's message: programs put their own texts before it, in tags or below headings."""
    text = _after_context(text) or _TASK.sub("", text, count=1)
    paragraphs = [one for one in text.split("\n\n") if one.strip()]
    rest = text
    while found := _TAG.match(rest):
        end = rest.find(f"</{found[1]}>")
        if end < 0 or not rest[end + len(found[1]) + 3 :].strip():
            rest = rest[found.end() :] if end < 0 else rest[found.end() : end]
            break
        rest = rest[end + len(found[1]) + 3 :]
    return rest.strip() or (paragraphs[-1] if paragraphs else "")


def _after_context(text: str) -> str:
    """The message that Open WebUI put after what it found; "" if it found nothing for it."""
    return text.rpartition(_CONTEXT_ENDS)[2].strip() if _TASK.match(text) and _CONTEXT_ENDS in text else ""


# What a side call is for


_PURPOSES = (
    ("title", re.compile(r"\b(title|conversation name|summariz\w+ .{0,40}few words)\b", re.IGNORECASE)),
    ("tags", re.compile(r"\btags?\b", re.IGNORECASE)),
    ("follow-ups", re.compile(r"follow.?ups?\b|might naturally send next|suggest\w* .{0,40}questions", re.IGNORECASE)),
    ("commit message", re.compile(r"commit message", re.IGNORECASE)),
    ("search query", re.compile(r"search quer(y|ies)", re.IGNORECASE)),
    ("compaction", re.compile(r"\b(compact|summar(y|ise|ize)|handoff)\b", re.IGNORECASE)),
)

_MAKES = re.compile(r"\b(title|tag) generator\b|\bgenerates? [^.\n]{0,60}\b(titles?|tags|commit messages?)\b", re.I)
"""A system prompt says so what its program makes: "You are a title generator"."""

_INSTRUCTED = 3_000
"""Characters at the beginning and the end of a text in which a side call says what it makes."""

_PROBE = 8
"""Tokens of output that are no answer: a client asks so whether it may ask."""


def label_of(window: ObservedWindow) -> str:
    """What a request that begins a line is: `conversation`, or the kind of a side call, by its shape and its words.

    A side call has one message, no tools, and instructions about what to make. All of them have to be so: a user may
    well ask for a title.
    """
    limit = window.head.get("max_tokens", window.head.get("max_completion_tokens"))
    if isinstance(limit, int) and limit <= _PROBE:
        return "probe"
    if window.has_tools or len(window.keys) != 1 or not window.texts:
        return CONVERSATION
    system = " ".join(_said(block.value) for block in window.blocks if block.level == "system")
    text = window.texts[0]
    if _after_context(text):
        return CONVERSATION
    fixed_form = any("format" in str(window.head.get(name)) for name in ("output_config", "response_format", "text"))
    quotes = bool(re.search(r"<(chat_history|session|conversation|transcript|diff)>|^(USER|ASSISTANT): ", text, re.M))
    task = re.search(r"^#+ ?(Task|Guidelines|Output)", text, re.M)
    if not (fixed_form or quotes or task or _MAKES.search(system[:_INSTRUCTED])):
        return CONVERSATION
    told = f"{system[:_INSTRUCTED]} {text[:_INSTRUCTED]} {text[-_INSTRUCTED:]} {window.head.get('output_config')}"
    return next((name for name, pattern in _PURPOSES if pattern.search(told)), "side call")


def _said(value: Json) -> str:
    match value:
        case {"text": str(text)} | {"content": str(text)} | {"instructions": str(text)}:
            return text
        case {"content": [*parts]}:
            return " ".join(_said(part) for part in parts)
        case _:
            return ""
