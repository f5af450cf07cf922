"""What a model reads of an MCP call's result: texts as they are, structured content as JSON, the rest as a note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lamella.core.errors import ToolFailed
from lamella.core.json import Json, encode_text
from lamella.tooling.runner import MAX_KEPT

NOTHING = "The tool gave back nothing."


def text_of(result: Mapping[str, Json]) -> str:
    """The text of a `tools/call` result; raises `ToolFailed` with it when the server calls it an error."""
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    parts = [part for block in blocks for part in _part(block)]
    structured = result.get("structuredContent")
    if structured is not None and not any(map(_has_text, blocks)):
        parts.append(encode_text(structured))
    text = "\n\n".join(part for part in parts if part)[: MAX_KEPT + 1]
    if result.get("isError"):
        raise ToolFailed(text[:10_000] or "The tool failed and did not say why.")
    return text or NOTHING


def _has_text(block: Mapping[str, Json]) -> bool:
    return block.get("type") == "text" and bool(block.get("text"))


def _part(block: Mapping[str, Json]) -> Iterator[str]:
    match block.get("type"):
        case "text":
            yield str(block.get("text", ""))
        case "image" | "audio" as kind:
            yield _not_shown(str(kind), block.get("mimeType"), block.get("data"))
        case "resource_link":
            about = block.get("description") or block.get("title") or ""
            yield f"[Resource {block.get('name', '')}: {block.get('uri', '')}]{f' {about}' if about else ''}"
        case "resource":
            resource = block.get("resource")
            if isinstance(resource, dict) and isinstance(resource.get("text"), str):
                yield f"[Resource {resource.get('uri', '')}]\n{resource['text']}"
            elif isinstance(resource, dict):
                yield _not_shown(f"resource {resource.get('uri', '')}", resource.get("mimeType"), resource.get("blob"))
        case kind:
            yield f"[A part of the kind “{str(kind)[:40]}” is not shown.]"


def _not_shown(what: str, media_type: Json, data: Json) -> str:
    size = len(data) * 3 // 4 if isinstance(data, str) else 0
    return f"[{what}, {media_type or 'of unknown type'}, about {size} bytes: it can't be shown in a result.]"
