"""A client's request in the canonical form, whatever API it was written for, and the builder of its messages.

Texts of system messages before all others are instructions. A later one stays in its place, as a user message in tags:
moved to the front it would say something else, and change the cached prefix. Pictures of a tool's result follow the
results, since not every API takes them within one.

Thinking that one vendor sealed goes through a client of another vendor's API in a seal of ours (`wrapped_seal`), so
that it comes back whole. Pure.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zlib import compress, decompressobj
from zlib import error as zlib_error

import msgspec

from lamella.core.json import Json, JsonObject, decode_arguments, digest, encode
from lamella.core.messages import Image, Part, Reasoning, Text, ToolResult
from lamella.core.prompt import PromptMessage, Role, ToolSpec, Ttl
from lamella.gateway.client_settings import ClientSettings, refused

SYSTEM_OPEN, SYSTEM_CLOSE = "<system-message>", "</system-message>"
"""Around the text of a system message that stays in its place as a user message."""

CUSTOM_SCHEMA = '{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}'
"""The arguments of a custom tool, whose input is a text of any form."""

INSTRUCTIONS = -1
"""In place of a message's number: the instructions."""

MAX_THINKING_BYTES = 4_000_000
"""Bytes of thinking that an id may unpack to: a caller can send any id."""

SIDE = 1024
"""Pixels of a picture's sides, for its tokens: a client does not say them, and the picture is not opened."""


@dataclass(frozen=True, slots=True)
class ToolForm:
    """A caller's tool that is more than a name: in a namespace, or `is_custom`, with a text instead of arguments."""

    name: str
    namespace: str = ""
    is_custom: bool = False


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request in the canonical form. `changes` says what could not be carried as it was, each as "place: what".

    `forms` has the caller's form of tools that are no plain functions, by the name of their `ToolSpec`. `marked` are
    the parts with a cache marker of the caller, by message and part; message `INSTRUCTIONS` are the instructions.
    """

    model: str
    instructions: tuple[str, ...]
    messages: tuple[PromptMessage, ...]
    tools: tuple[ToolSpec, ...]
    settings: ClientSettings
    changes: tuple[str, ...] = ()
    forms: Mapping[str, ToolForm] = field(default_factory=dict)
    marked: Mapping[tuple[int, int], Ttl] = field(default_factory=dict)


class RequestBuilder:
    """Collects the messages of one body, in order."""

    def __init__(self, *, tags_system: bool) -> None:
        self.instructions: list[str] = []
        self.messages: list[PromptMessage] = []
        self.marked: dict[tuple[int, int], Ttl] = {}
        self.changes: list[str] = []
        self.names: dict[str, str] = {}
        """The tools that were called, by the ids of their calls."""
        self._tags_system = tags_system
        self._pictures: list[Part] = []
        """Pictures of results, which wait for the last of the results."""

    def change(self, place: str, what: str) -> None:
        """Note something that is not carried as it was."""
        self.changes.append(f"{place}: {what}")

    def instruct(self, text: str, ttl: Ttl | None = None) -> None:
        """A text for the model before all messages."""
        if text:
            if ttl is not None:
                self.marked[(INSTRUCTIONS, len(self.instructions))] = ttl
            self.instructions.append(text)

    def system(self, place: str, text: str) -> None:
        """A system message after the first other message."""
        if self._tags_system:
            self.change(place, "a system message after others stays in its place, as a user message in tags")
            self.say("user", [Text(f"{SYSTEM_OPEN}\n{text}\n{SYSTEM_CLOSE}")])
        else:
            self.say("system", [Text(text)])

    def say(self, role: Role, parts: Sequence[Part], lives: Sequence[Ttl | None] = ()) -> None:
        """A message; `lives` are those of the markers on its parts. Waiting pictures come first."""
        before, self._pictures = self._pictures, []
        if before and role == "user":
            parts, lives = [*before, *parts], [*(None for _ in before), *lives]
        elif before:
            self._append("user", before)
        self._append(role, parts, lives)

    def go_on(self, parts: Sequence[Part]) -> None:
        """Parts of an answer, which belong to the message before if that is one."""
        if self.messages and self.messages[-1].role == "assistant" and not self._pictures:
            self.messages[-1] = PromptMessage("assistant", (*self.messages[-1].parts, *parts))
        else:
            self.say("assistant", parts)

    def result(self, place: str, result: ToolResult, pictures: Sequence[Part], ttl: Ttl | None = None) -> None:
        """The result of a call; results in a row are one message."""
        if pictures:
            self.change(place, f"pictures of a result follow the results ({len(pictures)})")
            self._pictures += [Text(f"From the result of {result.name or result.call_id}:"), *pictures]
        if self.messages and self.messages[-1].role == "tool":
            earlier = self.messages.pop().parts
            self._append("tool", [*earlier, result], [*(None for _ in earlier), ttl])
        else:
            self._append("tool", [result], [ttl])

    def end(self) -> None:
        """After the last message."""
        if self._pictures:
            self.say("user", [])

    def _append(self, role: Role, parts: Sequence[Part], lives: Sequence[Ttl | None] = ()) -> None:
        number = len(self.messages)
        self.marked |= {(number, place): ttl for place, ttl in enumerate(lives) if ttl is not None}
        self.messages.append(PromptMessage(role, tuple(parts)))


PDF = "application/pdf"


def file_of_data(place: str, media_type: str, data: str) -> Image:
    """A picture or a PDF given as base64."""
    if not media_type.startswith("image/") and media_type != PDF:
        raise refused(place, f"a file of type “{media_type[:40]}” can't be carried to another API", "Send its text.")
    try:
        decoded = b64decode(data, validate=True)
    except ValueError:
        raise refused(place, "the file is not valid base64", "Send its bytes as base64.") from None
    name = digest(decoded)
    return Image(name, media_type, SIDE, SIDE, name, decoded)


def file_of_url(place: str, url: Json, media_type: str = "") -> Image:
    """A picture or a PDF at an address, which the provider fetches, or within a `data:` address."""
    if not isinstance(url, str) or not url:
        raise refused(place, "the file has no address", "Send its address, or its bytes as a data: address.")
    if not url.startswith("data:"):
        return Image("", media_type, SIDE, SIDE, digest(url.encode()), b"", url)
    head, _, data = url.removeprefix("data:").partition(",")
    named, _, coding = head.partition(";")
    if coding != "base64":
        raise refused(place, "the file's data: address is not base64", "Send its bytes as base64.")
    return file_of_data(place, named, data)


SEAL = "lamella."


CARRIES = "--lamella--"
"""Between the id of a call and the thinking that it carries."""


@dataclass(frozen=True, slots=True)
class CarriedThinking:
    """Sealed thinking before a call; `after_text`: a text of the same answer stands before it."""

    text: str
    signature: str | None = None
    redacted: str | None = None
    after_text: bool = False

    @property
    def part(self) -> Reasoning:
        """The thinking itself."""
        return Reasoning(self.text, self.signature, self.redacted)


def carrying_id(id: str, thinking: Sequence[CarriedThinking]) -> str:
    """The id of a call that carries the thinking before it. Chat Completions has no other place that every client
    sends back, and Anthropic refuses the result of a call without the thinking that led to it.
    """
    if not thinking:
        return id
    data = compress(encode(thinking))
    return f"{id}{CARRIES}{urlsafe_b64encode(data).decode().rstrip('=')}"


def carried_by(id: str) -> tuple[str, tuple[CarriedThinking, ...]]:
    """A call's own id, and the thinking that it carries."""
    own, _, data = id.partition(CARRIES)
    if not data:
        return id, ()
    try:
        packed = urlsafe_b64decode(data + "=" * (-len(data) % 4))
        unpacked = decompressobj().decompress(packed, MAX_THINKING_BYTES)
        return own, msgspec.json.decode(unpacked, type=tuple[CarriedThinking, ...])
    except (ValueError, zlib_error):
        return id, ()


def wrapped_seal(signature: str | None, redacted: str | None) -> str:
    """Another vendor's seal as one text, which a client sends back with the thinking. One of ours stays as it is."""
    if signature is not None and signature.startswith(SEAL):
        return signature
    return SEAL + urlsafe_b64encode(encode([signature, redacted])).decode()


OWN_SEAL = wrapped_seal(None, None)
"""Seals an agent's thinking for its client. No vendor's seal is in it, so no vendor ever gets that thinking back."""


def unwrapped_seal(text: str) -> tuple[str | None, str | None] | None:
    """Signature and redacted form of a seal of ours, both None if it holds none; None for a vendor's own."""
    if not text.startswith(SEAL):
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(text.removeprefix(SEAL)), type=tuple[str | None, str | None])
    except ValueError:
        return None, None


# Arguments of calls


def is_object(arguments: str) -> bool:
    """Whether a call's arguments are a JSON object, as they are once all of them came."""
    try:
        decode_arguments(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def arguments_of(arguments: str) -> JsonObject:
    """A call's arguments as an object. Of a model's text that is none it has the field `arguments`."""
    if not arguments.strip():
        return {}
    return decode_arguments(arguments) if is_object(arguments) else {"arguments": arguments}


def custom_input(arguments: str) -> str:
    """The text that a custom tool gets, of its arguments as a function."""
    given = arguments_of(arguments).get("input")
    return given if isinstance(given, str) else arguments
