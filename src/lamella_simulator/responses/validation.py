"""Requests that the Responses API refuses, in words close to its own."""

from __future__ import annotations

from typing import Any, get_args

from lamella_simulator.blocks import Json
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.models import Model
from lamella_simulator.openai.request import DATA, KINDS, Effort, check_choice
from lamella_simulator.openai.validation import NAME
from lamella_simulator.pictures import Pictures
from lamella_simulator.responses.request import CALLS, RESULTS, ResponsesRequest, kind_of, parts_of

ITEMS = ("message", "reasoning", *CALLS, *RESULTS, "compaction", "additional_tools", "configuration_update")
TOOLS = ("function", "custom", "namespace")
LEAST_THRESHOLD = 1_000
PARTS = {
    "user": ("input_text", "input_image", "input_file"),
    "assistant": ("output_text", "refusal"),
    "": ("input_text", "input_image", "input_file"),
}
LONGEST_CALL_ID = 64
LEAST_OUTPUT = 16


def validate(request: ResponsesRequest, model: Model, pictures: Pictures, most_images: int) -> None:
    check_state(request)
    if not request.items:
        raise invalid("Invalid 'input': empty array. Expected an array with minimum length 1.")
    check_head(request, model)
    check_tools("tools", request.tools)
    for index, item in enumerate(request.items):
        check_item(f"input[{index}]", item)
    check_choice(request.tool_choice, request.offered)
    check_images(request, model, pictures, most_images)
    check_ids(request.items)
    check_calls(request.items)
    check_reasoning(request)


def check_images(request: ResponsesRequest, model: Model, pictures: Pictures, most_images: int) -> None:
    """Raises 400 for the first picture that the API would refuse."""
    images = 0
    for index, item in enumerate(request.items):
        for path, part in parts_of(item):
            if part.get("type") == "input_image":
                images += 1
                check_image(f"input[{index}]{path}", part, model, pictures)
    if images > most_images:
        raise invalid(f"Invalid 'input': too many images in request. Maximum is {most_images}, got {images}.")


def check_state(request: ResponsesRequest) -> None:
    """Raises 400 for what needs a provider that keeps responses, or runs them later."""
    if request.previous_response_id is not None or request.conversation is not None:
        raise invalid(
            "'previous_response_id' and 'conversation': not found. The simulator stores no responses; send the whole "
            "input, with include=['reasoning.encrypted_content'] for reasoning.",
            code="previous_response_not_found",
        )
    if request.store or request.background:
        raise invalid("'store' and 'background': the simulator stores no responses; leave them out or send false.")
    if request.truncation == "auto":
        raise invalid("'truncation': the simulator never drops items; send 'disabled' or compact.")


def check_head(request: ResponsesRequest, model: Model) -> None:
    least = request.max_output_tokens
    if least is not None and least < LEAST_OUTPUT:
        raise invalid(
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {LEAST_OUTPUT}, "
            f"but got {least} instead.",
            code="integer_below_min_value",
        )
    if request.prompt_cache_options is not None and model.cache_rules != "blocks":
        raise invalid(f"'prompt_cache_options' is not supported with the model `{model.id}`.")
    for index, entry in enumerate(request.context_management or ()):
        threshold = entry.get("compact_threshold")
        if entry.get("type") != "compaction":
            raise invalid(f"Invalid value: '{entry.get('type')}' in 'context_management[{index}].type'.")
        if not isinstance(threshold, int) or threshold < LEAST_THRESHOLD:
            raise invalid(
                f"Invalid 'context_management[{index}].compact_threshold': expected an integer >= {LEAST_THRESHOLD}."
            )


def check_tools(path: str, tools: Any, kinds: tuple[str, ...] = TOOLS) -> None:
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise invalid(f"Missing required parameter: '{path}'.", code="missing_required_parameter")
    for index, tool in enumerate(tools):
        check_tool(f"{path}[{index}]", tool, kinds)


def check_tool(path: str, tool: Json, kinds: tuple[str, ...]) -> None:
    """A function, a custom tool that takes a text, or a namespace of both."""
    if tool.get("type") not in kinds:
        names = ", ".join(f"'{kind}'" for kind in kinds)
        raise invalid(f"Invalid value: '{tool.get('type')}' in '{path}.type'. The simulator knows {names}.")
    if not isinstance(tool.get("name"), str):
        raise invalid(f"Missing required parameter: '{path}.name'.", code="missing_required_parameter")
    if not NAME.fullmatch(tool["name"]):
        raise invalid(f"Invalid '{path}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
    if tool["type"] == "namespace":
        check_tools(f"{path}.tools", tool.get("tools"), ("function", "custom"))


def check_item(path: str, item: Json) -> None:
    kind = kind_of(item)
    if kind not in ITEMS:
        message = f"Invalid value: '{kind}' in '{path}.type'. The simulator knows {', '.join(ITEMS)}."
        raise invalid(message, code="invalid_value")
    match kind:
        case "message":
            check_message(path, item)
        case "function_call" | "custom_tool_call":
            require(path, item, "call_id", "name", "arguments" if kind == "function_call" else "input")
            if not NAME.fullmatch(item["name"]):
                raise invalid(f"Invalid '{path}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
        case "function_call_output" | "custom_tool_call_output":
            require(path, item, "call_id")
            if not is_content(item.get("output")):
                raise invalid(f"Missing required parameter: '{path}.output'.", code="missing_required_parameter")
            check_parts(path, item, "")
        case "compaction":
            require(path, item, "encrypted_content")
        case "additional_tools":
            check_tools(f"{path}.tools", item.get("tools"))
        case "configuration_update":
            check_update(path, item)
        case _:
            require(path, item, "id")
            if not isinstance(item.get("summary"), list):
                raise invalid(f"Missing required parameter: '{path}.summary'.", code="missing_required_parameter")
    if len(str(item.get("call_id", ""))) > LONGEST_CALL_ID:
        raise invalid(f"Invalid '{path}.call_id': string too long. Expected a maximum length of {LONGEST_CALL_ID}.")


def check_update(path: str, item: Json) -> None:
    """Another effort from here on, which keeps the prefix before it."""
    reasoning = item.get("reasoning")
    if not isinstance(reasoning, dict) or reasoning.get("effort") not in get_args(Effort):
        raise invalid(f"Invalid value: '{path}.reasoning.effort'.", code="invalid_value")


def is_content(content: Any) -> bool:
    """A text, or parts."""
    return isinstance(content, str) or (isinstance(content, list) and all(isinstance(part, dict) for part in content))


def check_message(path: str, item: Json) -> None:
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise invalid(f"Invalid value: '{role}' in '{path}.role'.", code="invalid_value")
    if not is_content(item.get("content")):
        raise invalid(f"Missing required parameter: '{path}.content'.", code="missing_required_parameter")
    if item.get("phase") not in (None, "commentary", "final_answer"):
        raise invalid(f"Invalid value: '{item['phase']}' in '{path}.phase'.", code="invalid_value")
    check_parts(path, item, role if role in PARTS else "")


def check_parts(path: str, item: Json, role: str) -> None:
    for place, part in parts_of(item):
        kind = part.get("type")
        if kind not in PARTS[role]:
            names = ", ".join(f"'{name}'" for name in PARTS[role])
            raise invalid(f"Invalid value: '{kind}'. Supported values are: {names}. ({path}{place})")
        if kind in ("input_text", "output_text") and not isinstance(part.get("text"), str):
            raise invalid(f"Missing required parameter: '{path}{place}.text'.", code="missing_required_parameter")


def require(path: str, item: Json, *fields: str) -> None:
    for field in fields:
        if not isinstance(item.get(field), str) or (field not in ("arguments", "input") and not item[field]):
            raise invalid(f"Missing required parameter: '{path}.{field}'.", code="missing_required_parameter")


def check_image(path: str, part: Json, model: Model, pictures: Pictures) -> None:
    if model.pictures is None:
        raise invalid(f"Invalid content type at '{path}'. input_image is only supported by certain models.")
    url: Any = part.get("image_url")
    if not isinstance(url, str):
        raise invalid(f"Missing required parameter: '{path}.image_url'.", code="missing_required_parameter")
    encoded = data_of(part)
    if encoded is None:
        if not url.startswith(("https://", "http://")):
            raise invalid(f"Invalid '{path}.image_url'. Expected a valid URL.", code="invalid_value")
    elif pictures.of(encoded) is None:
        raise invalid(
            "The image data you provided does not represent a valid image. Please check your input and try again "
            f"with one of the supported image formats: {list(KINDS)}. ({path})",
            code="invalid_image_format",
        )


def data_of(part: Json) -> str | None:
    """The base64 text of a picture that travels in its address; None for one that lies elsewhere."""
    url = part.get("image_url")
    found = DATA.match(url) if isinstance(url, str) else None
    return url[found.end() :] if isinstance(url, str) and found else None


def check_ids(items: list[Json]) -> None:
    seen: set[str] = set()
    for item in items:
        id = item.get("id")
        if isinstance(id, str):
            if id in seen:
                raise invalid(f"Duplicate item found with id {id}. Remove duplicate items from your input.")
            seen.add(id)


def check_calls(items: list[Json]) -> None:
    """Every call has one output, somewhere after it, and every output has its call before it."""
    open_calls: dict[str, None] = {}
    answered: set[str] = set()
    for item in items:
        call_id = str(item.get("call_id", ""))
        match kind_of(item):
            case "function_call" | "custom_tool_call":
                if call_id in open_calls or call_id in answered:
                    raise invalid(f"Duplicate function call found with call_id {call_id}.")
                open_calls[call_id] = None
            case "function_call_output" | "custom_tool_call_output":
                if call_id not in open_calls:
                    raise invalid(f"No tool call found for function call output with call_id {call_id}.")
                del open_calls[call_id]
                answered.add(call_id)
            case _:
                pass
    if open_calls:
        raise invalid(f"No tool output found for function call {next(iter(open_calls))}.")


def check_reasoning(request: ResponsesRequest) -> None:
    """A reasoning item stands before what it led to, and comes back encrypted, since nothing was stored."""
    items = request.items
    for index, item in enumerate(items):
        if kind_of(item) != "reasoning":
            continue
        if item.get("encrypted_content") is None:
            raise ProviderError(
                404,
                f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false. "
                "Try again with `store` set to true, or remove this item from your input.",
            )
        following = next((other for other in items[index + 1 :] if kind_of(other) != "reasoning"), None)
        made = following is not None and (kind_of(following) in CALLS or following.get("role") == "assistant")
        if not made:
            raise invalid(f"Item '{item['id']}' of type 'reasoning' was provided without its required following item.")
