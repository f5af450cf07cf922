"""Writes `web/src/objects.ts`, the types of the page, from the description of the API: `python webbuild.py --types`.

Needs Lamella's own environment, unlike `webbuild.py`. A test says when the file is not up to date.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from lamella.server.web import described_api

OBJECTS = Path(__file__).resolve().parent / "web" / "src" / "objects.ts"

HEAD = """/**
 * What the server's endpoints give and take, and the packets of its streams.
 * Made from the description of the API by `python webbuild.py --types`; do not edit.
 */
"""

LIST = """
/** A page of a list; `last_id` is the `after` of the next. */
export interface ListOf<Item> {
  object: 'list'
  data: Item[]
  first_id: string | null
  last_id: string | null
  has_more: boolean
}
"""

WIDTH = 108

WORDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def types() -> str:
    """The TypeScript of every object, body and packet that the description names."""
    schemas: dict[str, Any] = described_api()["components"]["schemas"]
    return HEAD + "".join(_declared(name, schema) for name, schema in schemas.items() if not _is_list(schema)) + LIST


def _is_list(schema: dict[str, Any]) -> bool:
    """Whether it is a list and nothing else: one type stands for all of them."""
    return list(schema.get("properties", ())) == ["object", "data", "first_id", "last_id", "has_more"]


def _declared(name: str, schema: dict[str, Any]) -> str:
    said = _comment(schema.get("description", ""), "")
    if "properties" not in schema:
        kind = _type(schema)
        if len(kind) > WIDTH:
            kind = "".join(f"\n  | {one}" for one in kind.split(" | "))
        return f"\n{said}export type {name} ={'' if kind[0] == chr(10) else ' '}{kind}\n"
    required = schema.get("required", ())
    lines = [
        f"{_comment(field.get('description', ''), '  ')}  {key}{'' if key in required else '?'}: {_type(field)}\n"
        for key, field in schema["properties"].items()
    ]
    return f"\n{said}export interface {name} {{\n{''.join(lines)}}}\n"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema or "const" in schema:
        return " | ".join(f"'{value}'" for value in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        item = _type(schema.get("items", {}))
        return f"({item})[]" if " | " in item else f"{item}[]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", {})
        return f"Record<string, {_type(values if isinstance(values, dict) else {})}>"
    return WORDS.get(schema.get("type", ""), "unknown")


def _comment(text: str, indent: str) -> str:
    """The text as a comment before what it is about."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]
    lines = [line for text in paragraphs for line in textwrap.wrap(text, WIDTH)]
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} * {line}\n" for line in lines) + f"{indent} */\n"


if __name__ == "__main__":
    OBJECTS.write_text(types(), "utf-8")
