"""The input of a Responses request: new messages of the user, and outputs of the calls that were handed out.

    read_input([{"type": "function_call_output", "call_id": "c1", "output": "letter.txt"}]).results
    # (ToolResult("c1", "", "letter.txt"),)

Several messages of the user are one, with blank lines between them. Messages of a developer or the system are dynamic
context. A file or picture in the body itself is an `InlineFile`: the route stores it, and puts its id in its place.

https://platform.openai.com/docs/api-reference/responses/create (input)
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lamella.core.errors import InvalidRequest
from lamella.core.json import Json, JsonObject
from lamella.core.messages import ToolResult

RESPONSE, TURN = "resp_", "turn_"
"""A response is named as its turn, with another prefix."""

INLINE = "inline_"
"""The beginning of the id that stands for a file of the body until it is stored."""

_NEW_ONLY = "Send only what is new; conversation or previous_response_id names the history."
_ENDINGS = {"image/jpeg": "jpg", "image/svg+xml": "svg"}


@dataclass(frozen=True, slots=True)
class InlineFile:
    """A file whose bytes are in the body, under the id that stands for it."""

    id: str
    name: str
    data: bytes = field(repr=False)


@dataclass(slots=True)
class InputItems:
    """The items of one input. `told` are the texts of developer and system messages."""

    texts: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    file_ids: list[str] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    inline: list[InlineFile] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the user's message; "" if there are only outputs."""
        return "\n\n".join(self.texts)


def read_input(value: Json) -> InputItems:
    """The items of an input. Raises `InvalidRequest` with the place of one that can't be taken."""
    found = InputItems()
    if isinstance(value, str):
        found.texts.append(value)
        return found
    if not isinstance(value, list) or not value:
        raise InvalidRequest("The input is not one message of the user.", hint=_NEW_ONLY, param="input")
    for number, item in enumerate(value):
        _item(item if isinstance(item, Mapping) else {}, f"input.{number}", found)
    return found


def with_history(value: Json) -> tuple[list[Json], Json]:
    """The history in an input, and what is new in it: what follows the last answer or call, and what the developer or
    the system says first.

        user "Hi" · assistant "Hello." · user "And?"    the history is two items, and "And?" is new
    """
    if not isinstance(value, list):
        return [], value
    told = next((n for n, item in enumerate(value) if not _is_told(item)), len(value))
    last = next((n for n in range(len(value) - 1, -1, -1) if not _is_new(value[n])), -1)
    return (value[told : last + 1], [*value[:told], *value[last + 1 :]]) if last >= told else ([], value)


def _is_told(item: Json) -> bool:
    return isinstance(item, Mapping) and item.get("role") in ("system", "developer")


def _is_new(item: Json) -> bool:
    is_output = isinstance(item, Mapping) and item.get("type") == "function_call_output"
    return is_output or _is_told(item) or (isinstance(item, Mapping) and item.get("role") == "user")


def input_of(text: str, file_ids: Sequence[str], results: Sequence[ToolResult]) -> Json:
    """The input that `read_input` reads these from."""
    outputs: list[Json] = [_output(result) for result in results]
    if outputs and not text and not file_ids:
        return outputs
    if not outputs and not file_ids:
        return text
    content: list[Json] = [{"type": "input_file", "file_id": file_id} for file_id in file_ids]
    said: Json = {"type": "message", "role": "user", "content": [*content, {"type": "input_text", "text": text}]}
    return [*outputs, said]


def _output(result: ToolResult) -> Json:
    made = {"type": "function_call_output", "call_id": result.call_id, "output": result.content}
    return {**made, "status": "incomplete"} if result.is_error else made


def _item(item: JsonObject, place: str, found: InputItems) -> None:
    match item:
        case {"type": "function_call_output", "call_id": str(call_id), "output": output}:
            text = output if isinstance(output, str) else _texts_of(output, f"{place}.output")
            found.results.append(ToolResult(call_id, "", text, item.get("status") == "incomplete"))
        case {"role": "user" | "system" | "developer" as role, **more} if item.get("type", "message") == "message":
            if unknown := sorted(set(more) - {"type", "content", "id", "status", "phase"}):
                raise InvalidRequest(
                    "A message has no such field.", hint="Leave it out.", param=f"{place}.{unknown[0]}"
                )
            content = more.get("content")
            if role != "user":
                found.told.append(content if isinstance(content, str) else _texts_of(content, f"{place}.content"))
            elif isinstance(content, str):
                found.texts.append(content)
            else:
                _said(content, f"{place}.content", found)
        case {"role": "assistant"} | {"type": "function_call" | "reasoning" | "item_reference"}:
            raise InvalidRequest("The input has a part of the conversation so far.", hint=_NEW_ONLY, param=place)
        case _:
            what = str(item.get("type") or item.get("role") or "a thing without a type")[:60]
            raise InvalidRequest(
                f"The input has “{what}”, which can't be taken here.",
                hint="Send messages of the user, and function_call_output.",
                param=place,
            )


def _texts_of(content: Json, place: str) -> str:
    """The texts of a content that can have nothing else."""
    texts: list[str] = []
    for number, part in enumerate(content if isinstance(content, list) else [None]):
        match part:
            case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
                texts.append(text)
            case _:
                raise InvalidRequest("Only texts can be taken here.", hint="Send texts.", param=f"{place}.{number}")
    return "\n".join(texts)


def _said(content: Json, place: str, found: InputItems) -> None:
    """The parts of a user's message."""
    texts: list[str] = []
    for number, part in enumerate(content if isinstance(content, list) else [None]):
        where = f"{place}.{number}"
        match part:
            case {"type": "input_text", "text": str(text), **more} if not more:
                texts.append(text)
            case {"type": "input_file" | "input_image", "file_id": str(file_id), **more} if not set(more) - {"detail"}:
                found.file_ids.append(file_id)
            case {"type": "input_file", "file_data": str(data), **more} if not set(more) - {"filename", "detail"}:
                _inline(str(more.get("filename") or ""), data, where, found)
            case {"type": "input_image", "image_url": str(url), **more} if not set(more) - {"detail"}:
                _inline("", url, where, found)
            case _:
                raise InvalidRequest(
                    "A message holds texts, and files by their file_id or with their bytes.",
                    hint="Upload a file to /api/v1/files and name its id, or send a data: address.",
                    param=where,
                )
    found.texts.append("\n\n".join(texts))


def _inline(name: str, data: str, place: str, found: InputItems) -> None:
    """A file by a `data:` address, or as base64 alone."""
    head, _, encoded = data.partition(",") if data.startswith("data:") else ("", "", data)
    media_type, _, coding = head.removeprefix("data:").partition(";")
    if data.startswith(("http:", "https:")) or (head and coding != "base64"):
        raise InvalidRequest("Files are not fetched from elsewhere.", hint="Send a data: address.", param=place)
    try:
        decoded = b64decode(encoded, validate=True)
    except ValueError:
        raise InvalidRequest("The bytes are not base64.", hint="Encode them as base64.", param=place) from None
    id = f"{INLINE}{len(found.inline)}"
    ending = _ENDINGS.get(media_type, media_type.partition("/")[2] or "bin")
    found.inline.append(
        InlineFile(id, name or f"{'picture' if media_type.startswith('image/') else 'file'}.{ending}", decoded)
    )
    found.file_ids.append(id)
