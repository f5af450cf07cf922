"""`lamella replay`: a trace through the engine, a line for each request, then totals and the bound."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lamella.cache.difference import CLIENT
from lamella.cli.logs import configure_logs
from lamella.cli.main import cli
from lamella.core.errors import ConfigurationError, InvalidRequest
from lamella.core.json import Json, encode_text
from lamella.core.tokens import Usage
from lamella_lab.replay.comparison import LayoutReplay, cost_vs_best_layout, in_all_layouts
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.events import ReplayEvent
from lamella_lab.replay.options import ReplayOptions
from lamella_lab.replay.report import Replayed, ReplayReport, body_name, compared, nothing_asked
from lamella_lab.replay.run import replay
from lamella_lab.trace.format import Trace
from lamella_lab.trace.reader import read_trace


@cli.command("replay")
def replay_command(
    trace: Annotated[Path, typer.Argument(help="A trace: a JSON file.")],
    layout: Annotated[str | None, typer.Option(help="Another layout than the trace's.")] = None,
    markers: Annotated[str | None, typer.Option(help="Another marker policy: planner, seed, auto_tail or off.")] = None,
    model: Annotated[str | None, typer.Option(help="Another model.")] = None,
    provider: Annotated[str | None, typer.Option(help="anthropic or openai.")] = None,
    models: Annotated[
        Path | None, typer.Option(help="A file of models and prices that extends the shipped table.")
    ] = None,
    set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the trace; may be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    dump: Annotated[
        Path | None, typer.Option(help="Write every request body, exactly as sent, to this folder.")
    ] = None,
    layouts: Annotated[
        bool, typer.Option("--layouts", help="Also replay it in every layout, and compare with the cheapest.")
    ] = False,
) -> None:
    """Run a trace through the engine against the simulator, on virtual time."""
    configure_logs()
    options = ReplayOptions(layout, markers, model, provider, _settings(set or []), models)
    trace_read = read_trace(trace)
    if trace_read.head.layout == CLIENT and layout is None:
        raise InvalidRequest(
            "A client wrote these requests, so no layout makes their bytes again.",
            hint="`--layout lamella --markers planner` gives the cost of the same messages here.",
            param="--layout",
        )
    report, others = asyncio.run(_replayed(trace_read, options, layouts=layouts))
    if report.unused:
        typer.echo(f"Not used by this version: {', '.join(report.unused)}", err=True)
    if dump is not None:
        _dump(report, dump)
    failed = [request.number for request in report.requests if request.record.error is not None]
    typer.echo(encode_text(_as_json(report, others)) if json else "\n".join(_lines(report) + _costs(report, others)))
    if not report.requests:
        typer.echo(f"No request was made: {nothing_asked(trace_read)}.", err=True)
    exported = trace_read.head.exported
    changed = ReplayOptions(settings={}, models=models) != options
    if exported is not None:
        failed = []  # what failed then fails again
        for what in exported.not_carried:
            typer.echo(f"Not carried: {what}.", err=True)
        if not changed and report.requests:
            typer.echo(f"{compared(report, trace_read)}.", err=True)
    differs = exported is not None and not changed and bool(report.differing or report.lost)
    if not report.requests or differs or (failed and not report.faults):
        raise typer.Exit(1)


async def _replayed(
    trace: Trace, options: ReplayOptions, *, layouts: bool
) -> tuple[ReplayReport, Sequence[LayoutReplay]]:
    ground = ReplayEnvironment()
    try:
        report = await replay(trace, options, ground)
        return report, await in_all_layouts(trace, options, ground) if layouts else ()
    finally:
        await ground.close()


def _as_json(report: ReplayReport, others: Sequence[LayoutReplay]) -> dict[str, Json]:
    shown = report.as_json()
    if others:
        best = cost_vs_best_layout(report.cost, others)
        shown["layouts"] = [
            {"layout": o.layout, "marker_policy": o.policy, "cost": round(o.report.cost, 8)} for o in others
        ]
        shown["cost_vs_best_layout"] = round(best, 4) if best is not None else None
    return shown


def _costs(report: ReplayReport, others: Sequence[LayoutReplay]) -> list[str]:
    """A line for each layout, the cheapest first, then how far this replay is from it."""
    if not others:
        return []
    lines = [f"  {o.report.cost:>10.6f}  {o.layout}, {o.policy}" for o in sorted(others, key=lambda o: o.report.cost)]
    best = cost_vs_best_layout(report.cost, others)
    return ["", *lines, *([f"this replay: {best:.2f} times the best of these"] if best is not None else [])]


def _settings(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidRequest(f"--set takes KEY=VALUE, not “{pair}”.")
        found[name.strip()] = value
    return found


def _dump(report: ReplayReport, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for request in report.requests:
            (folder / body_name(request.number)).write_bytes(request.body)
    except OSError as error:
        raise ConfigurationError(f"{folder} can't be written to: {error.strerror}.") from None


def _lines(report: ReplayReport) -> list[str]:
    lines = ["   n turn step    total     read  written    fresh   output       cost  window"]
    waiting = list(report.happenings)
    for number, request in enumerate((None, *report.requests)):
        lines += [_line(request)] if request is not None else []
        while waiting and waiting[0].after <= number:
            lines += _happened(waiting.pop(0))
    usage = report.usage
    lines.append(
        f"{len(report.requests):>4} requests  {usage.input:>8} {usage.cache_read:>8} {usage.cache_write:>8} "
        f"{usage.fresh:>8} {usage.output:>8} {report.cost:>10.6f}"
    )
    if len(purposes := report.purposes()) > 1:
        lines += [
            f"{count:>4} {purpose:<9} {spent.input:>9} {spent.cache_read:>8} {spent.cache_write:>8} "
            f"{spent.fresh:>8} {spent.output:>8} {cost:>10.6f}"
            for purpose, (count, spent, cost) in purposes.items()
        ]
    ratio = f", {report.ratio:.2f} times the lower bound of ${report.bound:.6f}" if report.ratio else ""
    lines.append(f"cost ${report.cost:.6f}, of it input ${report.input_cost:.6f}{ratio}")
    return lines


def _happened(happening: ReplayEvent) -> list[str]:
    """The lines of something between two requests: kind, cause and figures, and what was told of it."""
    figures = happening.numbers
    told = f": {figures['before']:.0f} → {figures['after']:.0f} tokens" if "after" in figures else ""
    more = "".join(f", {name} {figures[name]:.0f}" for name in ("summary", "kept", "results") if name in figures)
    first, *rest = happening.text.splitlines() or [""]
    first_line = f": {first}" if first else ""
    return [
        f"     {happening.at:%H:%M:%S} [{happening.kind}: {happening.cause}{told}{more}]{first_line}",
        *(f"              {line}" for line in rest),
    ]


def _line(request: Replayed) -> str:
    record, usage = request.record, request.record.usage or Usage()
    beside = "" if record.purpose == "chat" else f"  ({record.purpose})"
    beside += f"  [not as it was: {request.difference}]" if request.difference else ""
    events = beside + "".join(f"  [{kind}: {cause}]" for kind, cause in request.events)
    return (
        f"{request.number:>4} {request.turn:>4} {record.step:>4} {usage.input:>8} {usage.cache_read:>8} "
        f"{usage.cache_write:>8} {usage.fresh:>8} {usage.output:>8} {record.cost or 0:>10.6f}  {record.letters}{events}"
    )
