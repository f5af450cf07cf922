"""Writes the pages that are made from the code: `python docs/generate.py`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import typing
from itertools import pairwise
from pathlib import Path

import msgspec
from pydantic.fields import FieldInfo

import lamella
import lamella.client
from lamella.chat.message import ExecutionRequest
from lamella.context.layout import Layout
from lamella.core import packets
from lamella.core.caching import Ttl
from lamella.core.models import ModelFacts
from lamella.core.records import UNCHANGED
from lamella.llm.model_table import ModelTable
from lamella.settings import Settings, default_data_folder, variable_of
from lamella_simulator.settings import Settings as SimulatorSettings

DOCS = Path(__file__).parent
MADE = "<!-- Made by docs/generate.py from the code. -->\n\n"


SETTINGS_INTRODUCTION = """
Every setting is an environment variable, or a line of the file `lamella.toml` in the data folder. Sizes are in tokens
unless they say bytes.

The command line overrides the environment, and the environment overrides the file. In the file, names are lower-case
without `LAMELLA_`. The name of a table stands before its keys:

```toml
context_budget = "120k"
anthropic_api_key = "sk-ant-…"

[compaction]
model = "claude-haiku-5-5"     # compaction_model
threshold = "80%"
```

`LAMELLA_CONFIG` names another file. An unknown key stops the start, and the error names the nearest setting. `data` and
`config` can't stand in the file, because they say where it is.
"""


SETTING_GROUPS = {
    "Server and data folder": ("connections", "data", "synchronous", "config", "key", "max_upload", "log_"),
    "Models and providers": ("model", "fallback", "anthropic", "openai", "provider"),
    "Answers": ("context_budget", "max_output", "thinking", "step_limit", "reminder", "titles"),
    "Dynamic context": ("dynamic_context",),
    "Cache": ("marker", "cache"),
    "Compaction and pruning": ("keep_recent", "compaction", "tool_", "resume"),
    "Queue": ("debounce", "queue"),
    "Search and knowledge bases": ("recall", "embedding", "knowledge"),
    "Restricted access": ("restricted",),
    "Web and MCP": ("open_url", "mcp"),
    "Others": ("",),
}
"""Headings of the settings page. A setting stands under the first one that has a beginning of its name."""


def settings_page() -> str:
    """Every setting with its variable and default."""
    lines = ["# Settings\n", SETTINGS_INTRODUCTION]
    rows: dict[str, list[str]] = {heading: [] for heading in SETTING_GROUPS}
    for name, field in Settings.model_fields.items():
        heading = next(one for one, beginnings in SETTING_GROUPS.items() if name.startswith(beginnings))
        rows[heading].append(f"| `{variable_of(name, field)}` | {_default(name, field)} | {field.description} |\n")
    for heading, found in rows.items():
        if found:
            lines += [f"\n## {heading}\n\n| variable | default | what it is |\n|---|---|---|\n", *found]
    lines.append("\nAt start the log names each unknown variable that begins with `LAMELLA_`.\n")
    lines.append("\n`lamella serve --data DIR --model NAME` set the folder and the model for one start.\n")
    return MADE + "".join(lines)


def _default(name: str, field: FieldInfo) -> str:
    if name == "data":
        return f"`~/{default_data_folder().relative_to(Path.home())}`"
    return "" if field.default in (None, "") else f"`{str(field.default).lower()}`"


def packets_page() -> str:
    """Every packet type with its fields."""
    lines = ["# Packets\n\n", inspect.cleandoc(packets.Packet.__doc__ or ""), "\n\n"]
    lines.append("A turn's stream is server-sent events: `id:` is `n`, `data:` the packet as JSON with its `type`.\n")
    lines.append(
        "`Last-Event-ID`, or `?after=N`, continues after packet N. The last packet of a turn is always "
        "`turn.finished`.\nA command is answered by one packet `command`.\n"
    )
    for kind in typing.get_args(packets.AnyPacket):
        info = msgspec.inspect.type_info(kind)
        assert isinstance(info, msgspec.inspect.StructType)
        own = [field.name for field in info.fields if field.name not in packets.Packet.__struct_fields__]
        lines.append(f"\n## `{info.tag}`\n\n{inspect.cleandoc(kind.__doc__ or '')}\n\n")
        lines.append("Fields: " + ", ".join(f"`{name}`" for name in own) + "\n")
    return MADE + "".join(lines)


def execution_request_page() -> str:
    """Every field of an execution request, with its type and default."""
    lines = ["# ExecutionRequest\n\n", inspect.cleandoc(ExecutionRequest.__doc__ or ""), "\n\n"]
    lines.append("`from lamella.chat.message import ExecutionRequest`. How it is run: ")
    lines.append("[Use Lamella as a library](../how-to/library.md).\n")
    lines += ["\n| field | type | default |\n|---|---|---|\n"]
    for field in dataclasses.fields(ExecutionRequest):
        lines.append(f"| `{field.name}` | {str(field.type).replace('|', 'or')} | {_default_of(field)} |\n")
    return MADE + "".join(lines)


def _default_of(field: dataclasses.Field[object]) -> str:
    if field.default is UNCHANGED:
        return "`UNCHANGED`"
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory()!r}`"
    return "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"


def simulator_options_page() -> str:
    """Every option of the simulator with its default and its note."""
    lines = [
        "# Options of the simulator\n\n",
        "`lamella simulate --option NAME=VALUE`, or `POST /_sim/settings` with\n",
    ]
    lines += ['`{"NAME": VALUE}` while it runs. [The provider simulator](simulator.md) says what it does.\n']
    lines += ["\n| option | default | what it is |\n|---|---|---|\n"]
    defaults = dataclasses.asdict(SimulatorSettings())
    for name, note in notes_of(SimulatorSettings).items():
        default = defaults[name]
        shown = "" if default is None else f"`{str(default).lower()}`"
        lines.append(f"| `{name}` | {shown} | {note} |\n")
    return MADE + "".join(lines)


def model_prices_page() -> str:
    """Every model of the shipped table, with what the planner knows of its prices and its cache."""
    table = ModelTable.shipped()
    lines = ["# Model prices\n\n", "From the [model table](models.md) that ships: US dollars for a million tokens. "]
    lines.append("Cached reads and writes are multiples of input.\n\n")
    lines.append("| model | input | output | read | write | write, 1 h | smallest prefix | window | output, most |\n")
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
    for name in sorted(table.names()):
        model = table.facts(name, "anthropic" if name.startswith("claude") else "openai")
        price = model.price
        hour = f"{price.write_1h:g}" if Ttl.ONE_HOUR in model.lives else ""
        if price.input:
            lines.append(
                f"| {name} | {price.input:g} | {price.output:g} | {price.read:g} | {price.write_5m:g} | {hour} "
                f"| {model.min_cacheable:,} | {model.window:,} | {model.max_output:,} |\n"
            )
    return MADE + "".join(lines)


def notes_of(kind: type) -> dict[str, str]:
    """The string after each field of a class, on one line; a field without one is a KeyError of the page."""
    (made,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(made, ast.ClassDef)
    notes = {}
    for field, note in pairwise(made.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(note, ast.Expr), f"{field.target.id} has no note"
            notes[field.target.id] = " ".join(str(ast.literal_eval(note.value)).split())
    return notes


def python_page() -> str:
    """What `import lamella` and `lamella.client` offer: each name with its signature and what its docstring says."""
    lines = ["# Python\n\n`import lamella` needs no SDK, web framework or database; `wrap` alone opens one. "]
    lines.append("[Use Lamella as a library]")
    lines.append("(../how-to/library.md) opens the whole backend.\n\n")
    for module, names in ((lamella, lamella.__all__), (lamella.client, lamella.client.__all__)):
        lines.append(f"## `{module.__name__}`\n\n```python\n{inspect.getdoc(module)}\n```\n\n")
        lines += [_member(name, getattr(module, name)) for name in sorted(names, key=str.lower)]
    return MADE + "".join(lines)


def _member(name: str, value: object) -> str:
    if not callable(value):
        held = ", ".join(f"`{one}`" for one in typing.cast("dict[str, object]", value))
        return f"### `{name}`\n\nA mapping with {held}.\n\n"
    lines = [f"### `{name}{_signature(value)}`\n\n{inspect.getdoc(value)}\n\n"]
    if isinstance(value, type):
        lines += [
            f"- `{method}{_signature(found)}`: {(inspect.getdoc(found) or '').partition(chr(10))[0]}\n"
            for method, found in vars(value).items()
            if inspect.isfunction(found) and not method.startswith("_")
        ]
        lines.append("\n")
    return "".join(lines)


class _Said(str):
    """A text that stands in a signature as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(value: typing.Callable[..., object]) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:
        return ""
    told = [
        one.replace(
            annotation=_Said(one.annotation) if isinstance(one.annotation, str) else one.annotation,
            default=_default_said(one.default),
        )
        for one in signature.parameters.values()
    ]
    back = signature.return_annotation
    return str(signature.replace(parameters=told, return_annotation=_Said(back) if isinstance(back, str) else back))


def _default_said(value: object) -> object:
    """A default as it is written, if it is a long record."""
    if isinstance(value, Layout):
        return _Said(f"LAYOUTS[{value.name!r}]")
    return _Said("FACTS") if isinstance(value, ModelFacts) else value


PAGES = {
    "reference/python.md": python_page,
    "reference/settings.md": settings_page,
    "reference/packets.md": packets_page,
    "reference/execution-request.md": execution_request_page,
    "reference/simulator-options.md": simulator_options_page,
    "reference/model-prices.md": model_prices_page,
}


def main() -> None:
    """Write the pages."""
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), "utf-8")


if __name__ == "__main__":
    main()
