"""What the command line changes of a trace before it is replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from lamella.app.providers import DEFAULT_MODELS
from lamella.cache.planner import policy_named
from lamella.core.errors import InvalidRequest
from lamella.turns.effective_settings import layout_named
from lamella_lab.trace.format import SetChange, Trace, TraceEntry, TraceHead, TraceTurn
from lamella_lab.trace.settings import UNUSED, settings_of


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What holds for the whole replay in place of what the trace says, also where it changes on the way.

    `models` is a file of models and prices that goes before the shipped table (docs/reference/models.md).
    """

    layout: str | None = None
    marker_policy: str | None = None
    model: str | None = None
    provider: str | None = None
    settings: Mapping[str, str] | None = None
    models: Path | None = None


def applied(trace: Trace, options: ReplayOptions) -> Trace:
    """The trace as it is replayed; raises `InvalidRequest` for an option that can't be."""
    if options.provider not in (None, *DEFAULT_MODELS):
        raise InvalidRequest(f"There is no provider “{options.provider}”.", hint="Choose anthropic or openai.")
    head = trace.head
    model = options.model
    if model is None and options.provider and _makes(head.model) != options.provider:
        model = DEFAULT_MODELS[options.provider]
    if options.provider:
        head = structs.replace(head, account=structs.replace(head.account, provider=options.provider))
    elif model is not None:
        head = structs.replace(head, account=structs.replace(head.account, provider=None))
    given = {"layout": options.layout, "marker_policy": options.marker_policy, "model": model}
    held = {name: value for name, value in given.items() if value is not None}
    head = structs.replace(head, **held)
    unused = set(trace.unused)
    for name, value in (options.settings or {}).items():
        if name in UNUSED:
            unused.add(name)
        else:
            head = _set(head, name, value)
    entries = tuple(_held(entry, held) for entry in trace.entries)
    _check_names(head, entries)
    return replace(trace, head=head, entries=entries, unused=tuple(sorted(unused)))


def _check_names(head: TraceHead, entries: Sequence[TraceEntry]) -> None:
    """Layouts and marker policies are looked up before anything is started."""
    for said in (head, *entries):
        layout, policy = getattr(said, "layout", None), getattr(said, "marker_policy", None)
        if layout is not None:
            layout_named(layout)
        if policy is not None:
            policy_named(policy)


def _makes(model: str) -> str:
    return "openai" if model.startswith("gpt-") else "anthropic"


def _held(entry: TraceEntry, held: Mapping[str, str]) -> TraceEntry:
    """The entry without the changes that an option overrides."""
    match entry:
        case TraceTurn() if "layout" in held:
            return structs.replace(entry, layout=None)
        case SetChange():
            return structs.replace(entry, **dict.fromkeys(held))
        case _:
            return entry


def _set(head: TraceHead, name: str, value: str) -> TraceHead:
    given = head.settings | {name: value}
    settings_of(given)
    return structs.replace(head, settings=given)
