"""The reference of the API for people, at `/docs`: the description of the API as one page, without a script."""

from __future__ import annotations

import re
from html import escape
from typing import Any

Schema = dict[str, Any]

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The page runs no script and loads nothing."""

METHODS = ("get", "post", "put", "patch", "delete")

STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem; }
code { font: 0.9em ui-monospace, monospace; overflow-wrap: anywhere; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
nav ul { columns: 14rem; padding-left: 1.2rem; }
details, section > div { border-bottom: 1px solid var(--line); padding: 0.5rem 0; }
summary { cursor: pointer; } summary b { display: inline-block; min-width: 4.5rem; }
table { border-collapse: collapse; width: 100%; }
td, th { border-top: 1px solid var(--line); padding: 0.25rem 0.5rem; text-align: left; vertical-align: top; }
:target { background: color-mix(in srgb, Highlight 20%, transparent); }
"""


def reference_page(document: Schema) -> str:
    """The HTML page of an OpenAPI document: its operations by the noun of their path, with parameters and answers."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    groups: dict[str, list[str]] = {}
    for path, verbs in document["paths"].items():
        made = [_operation(path, method, verbs[method]) for method in METHODS if method in verbs]
        groups.setdefault(_noun(path), []).extend(made)
    links = "".join(f'<li><a href="#{noun}">{noun}</a></li>' for noun in sorted(groups))
    sections = "".join(
        f'<section><h2 id="{noun}">{noun}</h2>{"".join(groups[noun])}</section>' for noun in sorted(groups)
    )
    schemas = "".join(_object(name, schema) for name, schema in document["components"]["schemas"].items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}: the API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style><h1>{title}: the API</h1>"
        '<p>For programs: <a href="/openapi.json"><code>/openapi.json</code></a> (OpenAPI). '
        "A request carries a key as <code>Authorization: Bearer lam_…</code>, once accounts are set up. "
        'Failures are a <a href="#object-Failure"><code>Failure</code></a>, '
        'streams send a <a href="#object-Packet"><code>Packet</code></a> per event.</p>'
        f'<nav><ul>{links}<li><a href="#objects">objects</a></li></ul></nav>{sections}'
        f'<section><h2 id="objects">objects</h2>{schemas}</section></html>'
    )


def _noun(path: str) -> str:
    """`conversations` of `/api/v1/conversations/{conversation_id}/turns`."""
    return path.removeprefix("/api/v1").removeprefix("/v1").strip("/").partition("/")[0]


def _operation(path: str, method: str, operation: Schema) -> str:
    """An operation, folded to its path and its first sentence."""
    said = str(operation.get("description", operation.get("summary", "")))
    first, _, rest = said.partition("\n\n")
    rows = [_row(one["name"], f"{one['in']}, {_kind(one['schema'])}", "") for one in operation.get("parameters", ())]
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        rows.append(_row("body", _kind(content["schema"]), f"<code>{escape(media)}</code>"))
    for status, answer in operation["responses"].items():
        rows.append(_row(status, _kinds(answer), _text(answer.get("description", ""))))
    return (
        f'<details id="{method}-{escape(path)}"><summary><b>{method.upper()}</b> <code>{escape(path)}</code><br>'
        f"{_text(first)}</summary>{_text(rest)}<table>{''.join(rows)}</table></details>"
    )


def _kinds(answer: Schema) -> str:
    """The types of an answer by content type; for a stream the types of its events."""
    found = []
    for media, content in answer.get("content", {}).items():
        item = content.get("itemSchema")
        kind = _kind(item["properties"]["data"]["contentSchema"] if item else content.get("schema", {}))
        found.append(kind if media == "application/json" else f"{kind} <small>({escape(media)})</small>")
    return ", ".join(found)


def _object(name: str, schema: Schema) -> str:
    said = _text(schema.get("description", ""))
    required = schema.get("required", ())
    rows = [
        _row(key, _kind(field), "" if key in required else "may be left out")
        for key, field in schema.get("properties", {}).items()
    ]
    shape = f"<table>{''.join(rows)}</table>" if rows else f"<p>{_kind(schema)}</p>"
    return f'<div id="object-{name}"><h3>{name}</h3>{said}{shape}</div>'


def _row(name: str, kind: str, said: str) -> str:
    return f"<tr><th><code>{escape(name)}</code></th><td>{kind}</td><td>{said}</td></tr>"


def _kind(schema: Schema) -> str:
    """A type in words, with links to the objects that it names."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#object-{name}"><code>{name}</code></a>'
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"<code>{escape(str(one))}</code>" for one in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    return escape(str(schema.get("format") or schema.get("type") or "anything"))


def _text(text: str) -> str:
    """Paragraphs, with text in backticks as code."""
    found = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return "".join(f"<p>{one}</p>" for one in found.split("\n\n")) if "\n\n" in found else found
