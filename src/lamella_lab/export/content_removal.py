"""A trace without what people and models wrote: every text in it gives way to one of the same lengths
(`placeholders.py`).

A text is blanked unless a rule here says what else becomes of it. What stays are our own words (ids that are drawn at
random, letters of windows, choices of a fixed list), moments, zones and figures.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

from msgspec import Struct, structs

from lamella.app.demonstration import MODEL as DEMONSTRATION
from lamella.app.providers import DEFAULT_MODELS
from lamella.context.layouts import LAYOUTS
from lamella.context.system_prompt import STATIC_SECTIONS
from lamella.core import errors
from lamella.core.json import encode_text
from lamella.core.knowledge import bases_of, quoting
from lamella.core.messages import ToolResult
from lamella.core.models import EFFORT_LEVELS, OFF
from lamella.knowledge import media_type
from lamella.llm.failures import figures_of
from lamella.llm.model_table import ModelTable, row_of
from lamella.llm.responses_wire import ReasoningSeal
from lamella.settings import Settings
from lamella_lab.export.placeholders import Placeholders
from lamella_lab.trace import format as form
from lamella_lab.trace import parts

SHIPPED_TOOLS = frozenset({"read_file", "knowledge_base_search", "search_conversation", "read_message", "open_url"})
"""Names of tools that windows depend on; they are ours."""

_OURS: Mapping[type[Struct], frozenset[str]] = {
    form.TraceHead: frozenset({"marker_policy", "timezone"}),
    form.TraceAccount: frozenset({"provider"}),
    form.TraceTurn: frozenset(
        {"id", "parent", "edit_of", "regenerate", "knowledge", "timezone", "marker_policy", "effort", "made_from"}
    ),
    form.SetChange: frozenset({"marker_policy", "effort"}),
    form.PreferChange: frozenset({"turn"}),
    form.PruneChange: frozenset({"turn"}),
    form.BaseChange: frozenset({"base", "grant"}),
    form.TraceBase: frozenset({"id", "grant"}),
    form.TraceExported: frozenset({"version", "not_carried"}),
    parts.TraceFile: frozenset({"id"}),
    parts.TraceTool: frozenset({"when_old", "kind"}),
    parts.TraceStep: frozenset({"stop_reason"}),
    parts.TraceAnswer: frozenset({"stop_reason"}),
    parts.TraceSent: frozenset({"letters", "sizes"}),
    parts.TraceMarker: frozenset({"life"}),
    parts.TraceStop: frozenset({"during", "cause"}),
}
"""Fields that nobody can write into: they stay."""

_MODELS = frozenset({"model", "models", "fallback_model", "compaction_model", "restricted_model"})
_AMOUNT = re.compile(r"[0-9.]+ ?[%kKmM]?")
_CHOICES = {choice for field in Settings.model_fields.values() for choice in get_args(field.annotation)} | {
    OFF,
    *EFFORT_LEVELS,
}
"""What a setting can be whose value is not free."""

_MEDIA_TYPES = media_type.PICTURES | {
    value for name, value in vars(media_type).items() if name.isupper() and isinstance(value, str) and "/" in value
}

StructT = TypeVar("StructT", bound=Struct)


def without_content(trace: form.Trace, placeholders: Placeholders) -> form.Trace:
    """The trace without content, under the key of `placeholders`."""
    without = _Without(placeholders)
    return form.Trace(without.of(trace.head), tuple(without.of(entry) for entry in trace.entries))


def new_placeholders() -> Placeholders:
    """Blanks under a key that nobody knows."""
    return Placeholders(secrets.token_bytes(32))


class _Without:
    """Blanks the parts of a trace."""

    def __init__(self, placeholders: Placeholders) -> None:
        self._blanks = placeholders
        table = ModelTable.read(None)
        self._known_models = frozenset({DEMONSTRATION, *table.names()})
        makers = [(name, maker) for name in table.names() for maker in DEFAULT_MODELS]
        self._known_words = frozenset(word for one in makers for word in _words(row_of(table.facts(*one))))
        self._rules: Mapping[tuple[type[Struct], str], Callable[[Any], Any]] = {
            (form.TraceHead, "settings"): self._settings,
            (form.SetChange, "settings"): self._settings,
            (form.TraceHead, "system"): self._system,
            (form.SystemChange, "system"): self._system,
            (form.TraceHead, "layout"): self._layout,
            (form.TraceTurn, "layout"): self._layout,
            (form.SetChange, "layout"): self._layout,
            (form.TraceHead, "models"): self._rows,
            (form.TraceTurn, "runs"): lambda runs: {number: self.of(run) for number, run in runs.items()},
            (form.TraceAgent, "name"): placeholders.name,
            (form.TraceAgent, "tools"): lambda names: names and [self._tool(name) for name in names],
            (form.TraceProject, "name"): placeholders.name,
            (form.TraceCommand, "user"): self._command,
            (form.PruneChange, "numbers"): lambda numbers: numbers,
            (parts.TraceTool, "name"): self._tool,
            (parts.TraceTool, "input_schema"): self._json,
            (parts.TraceFile, "media_type"): self._media_type,
            (parts.TraceFile, "data"): lambda data: None,
            (parts.TraceFound, "media_type"): self._media_type,
            (parts.TraceCall, "id"): placeholders.name,
            (parts.TraceCall, "name"): self._tool,
            (parts.TraceCall, "arguments"): self._json,
            (parts.TraceCall, "result"): placeholders.json,
            (parts.TraceCall, "rich"): lambda rich: quoting(bases_of(ToolResult("", "", "", rich=rich))),
            (parts.TraceResult, "call_id"): placeholders.name,
            (parts.TraceResult, "content"): placeholders.json,
            (parts.TracePart, "signature"): self._seal,
            (parts.TraceSent, "digest"): lambda digest: "",
            (parts.TraceStep, "made_after"): lambda fingerprint: "",
            (parts.TraceSent, "answer"): lambda name: name and placeholders.name(name),
            (parts.TraceSent, "error"): self._error,
        }

    def of(self, part: StructT) -> StructT:
        """The part without content."""
        kind = type(part)
        return kind(**{name: self._field(kind, name, getattr(part, name)) for name in part.__struct_fields__})

    def _field(self, kind: type[Struct], name: str, value: Any) -> Any:
        rule = self._rules.get((kind, name))
        if rule is not None:
            return rule(value)
        if name in _OURS.get(kind, ()):
            return value
        if name in _MODELS:
            return self._models(value)
        return self._value(value)

    def _value(self, value: Any) -> Any:
        match value:
            case Struct():
                return self.of(value)
            case str():
                return self._blanks.text(value)
            case list():
                return [self._value(one) for one in value]
            case dict():
                return {self._blanks.name(key): self._value(one) for key, one in value.items()}
            case _:
                return value

    # What else becomes of a text

    def _json(self, value: Any) -> str:
        return self._blanks.json(value if isinstance(value, str) else encode_text(value))

    def _models(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._models(name) for name in value]
        return value if value is None or value in self._known_models else self._blanks.name(value)

    def _rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows of the model table: what their words can be is in the shipped ones."""
        return [
            {name: self._models(one) if name == "name" else self._row(one) for name, one in row.items()} for row in rows
        ]

    def _row(self, value: Any) -> Any:
        match value:
            case str():
                return value if value in self._known_words else self._blanks.text(value)
            case list() | tuple():
                return [self._row(one) for one in value]
            case dict():
                return {name: self._row(one) for name, one in value.items()}
            case _:
                return value

    def _settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._setting(name, value) for name, value in settings.items()}

    def _setting(self, name: str, value: Any) -> Any:
        if name in _MODELS:
            return self._models(value)
        is_free = isinstance(value, str) and value not in _CHOICES and not _AMOUNT.fullmatch(value)
        return self._blanks.text(value) if is_free else value

    def _layout(self, name: str | None) -> str | None:
        return name if name is None or name in LAYOUTS else self._blanks.name(name)

    def _system(self, text: str) -> str:
        """A system prompt: sections that ship say nothing that anybody wrote here, and layouts know them."""
        for section in (one.text.strip() for one in STATIC_SECTIONS):
            before, found, after = text.partition(section)
            if found:
                return self._system(before) + found + self._system(after)
        return self._blanks.text(text)

    def _tool(self, name: str) -> str:
        return name if name in SHIPPED_TOOLS else self._blanks.name(name)

    def _media_type(self, name: str | None) -> str | None:
        return name if name is None or name in _MEDIA_TYPES else self._blanks.text(name)

    def _command(self, text: str) -> str:
        name, blank, words = text.partition(" ")
        return name + blank + self._blanks.text(words)

    def _seal(self, text: str | None) -> str | None:
        seal = ReasoningSeal.read(text) if text is not None else None
        if text is None or seal is None:
            return text and self._blanks.text(text)
        return ReasoningSeal(self._blanks.name(seal.id), seal.parts).text()

    def _error(self, error: parts.TraceError | None) -> parts.TraceError | None:
        """An error of a provider: its kind, and the figures that teach a limit."""
        if error is None:
            return None
        found = [number for number in figures_of(error.message) if number is not None]
        overflows = error.code == errors.ProviderContextOverflow.code
        said = " > ".join(f"{number} tokens" for number in found) if overflows and found else None
        codes = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "code")}
        return structs.replace(
            error,
            type=error.type if hasattr(errors, error.type) else "ProviderError",
            message=said or self._blanks.text(error.message),
            code=error.code if error.code in codes else None,
            hint=None,
            param=None,
        )


def _words(value: object) -> set[str]:
    match value:
        case str():
            return {value}
        case list() | tuple():
            return {word for one in value for word in _words(one)}
        case dict():
            return {word for one in value.values() for word in _words(one)}
        case _:
            return set()
