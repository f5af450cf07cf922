"""The /_sim calls: scripts, clock, ledger, request log, settings, reset. They need no key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypeVar, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lamella_simulator.blocks import encode
from lamella_simulator.clock import format_moment, parse_moment
from lamella_simulator.models import MODELS, Prices, exists
from lamella_simulator.replies import Fault, FaultKind, Reply
from lamella_simulator.settings import checked
from lamella_simulator.state import Record, Simulator

MOST_BYTES = 64_000_000
"""Of one call."""
REPLIES = 'Send {"ID": {"text": "…"}, …}; docs/reference/simulator.md names the fields of a reply'
FAULTS = f'Send [{{"kind": KIND, "times": 1}}, …], where a kind is one of {", ".join(get_args(FaultKind))}'
PRICES = 'Send {"MODEL": {"input", "output", "read", "write_short", "write_long"}, …} in dollars per million tokens'
MOMENT = 'Send {"now": ISO 8601} or {"advance_seconds": N}'
SETTINGS = 'Send {"OPTION": VALUE, …}; docs/reference/simulator-options.md lists the options'
Sent = TypeVar("Sent")


class AskedTime(msgspec.Struct, forbid_unknown_fields=True):
    now: str | None = None
    advance_seconds: float | None = None


class Unfit(Exception):
    """A call that is refused: what was wrong with it, and what to send."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


async def unfit(_: Request, error: Exception) -> Response:
    """Answers a refused call."""
    if not isinstance(error, Unfit):
        raise error
    return JSONResponse({"error": error.message}, status_code=error.status)


async def sent(http: Request, kind: type[Sent], shape: str) -> Sent:
    """The body of a call. Raises `Unfit` with its `shape` for anything else."""
    body = bytearray()
    async for piece in http.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise Unfit(f"The body is larger than {MOST_BYTES} bytes; send it in parts.", 413)
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except msgspec.ValidationError as error:
        raise Unfit(f"{error}. {shape}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unfit(f"The body is not JSON: {error}. {shape}.") from error


class AdminRoutes:
    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    async def replies(self, http: Request) -> Response:
        """POST /_sim/replies {"ID": REPLY, ...}: adds to the script; scripting an ID again restarts its faults."""
        replies = await sent(http, dict[str, Reply], REPLIES)
        self._simulator.script(replies)
        return JSONResponse({"stored": len(replies)})

    async def faults(self, http: Request) -> Response:
        """POST /_sim/faults [FAULT, ...]: what goes wrong with the next requests, one after the other; GET the rest."""
        if http.method == "POST":
            self._simulator.faults.extend(await sent(http, list[Fault], FAULTS))
        return JSONResponse({"faults": msgspec.to_builtins(list(self._simulator.faults))})

    async def prices(self, http: Request) -> Response:
        """GET the prices of every model; POST {"MODEL": PRICES, ...} sets those of some until the reset."""
        if http.method == "POST":
            prices = await sent(http, dict[str, Prices], PRICES)
            if strangers := [name for name in prices if not exists(name)]:
                raise Unfit(f"no such model: {strangers[0]}; GET /v1/models lists them. {PRICES}.")
            self._simulator.prices.update(prices)
        table = {model.id: model.prices for model in MODELS} | self._simulator.prices
        return JSONResponse(msgspec.to_builtins(table))

    async def clock(self, http: Request) -> Response:
        """GET the time; POST {"now": ISO 8601} or {"advance_seconds": N} to set it."""
        clock = self._simulator.clock
        if http.method == "POST":
            asked = await sent(http, AskedTime, MOMENT)
            if asked == AskedTime():
                raise Unfit(f"No time was named. {MOMENT}.")
            try:
                moment = parse_moment(asked.now) if asked.now is not None else clock.now()
                moment += asked.advance_seconds or 0.0
                format_moment(moment)
            except (ValueError, OverflowError, OSError) as error:
                raise Unfit(f"{error} is no time between the years 1 and 9999. {MOMENT}.") from error
            clock.set(moment)
        mode = "system" if clock.real else "virtual"
        return JSONResponse({"now": format_moment(clock.now()), "mode": mode})

    async def ledger(self, http: Request) -> Response:
        """GET every cache entry that was written."""
        entries = [
            {
                "key": entry.key.hex(),
                "tokens": entry.tokens,
                "ttl_seconds": entry.seconds,
                "available_at": format_moment(entry.available_at),
                "expires": format_moment(entry.expires),
            }
            for entry in self._simulator.ledger.entries()
        ]
        return JSONResponse({"entries": entries})

    async def requests(self, http: Request) -> Response:
        """GET the last requests, oldest first: bodies as received, bills, what was streamed.

        `?last=N` limits them, `?bodies=no` leaves their bodies out.
        """
        records = list(self._simulator.records)
        last, bodies = http.query_params.get("last"), http.query_params.get("bodies", "yes")
        if last is not None and not (last.isdecimal() and int(last)):
            raise Unfit(f"last: {last!r} is no number of requests; send ?last=N, N from 1")
        if bodies not in ("yes", "no"):
            raise Unfit(f"bodies: {bodies!r} is neither yes nor no")
        chosen = records if last is None else records[-int(last) :]
        body = encode({"requests": [shown(record, bodies=bodies == "yes") for record in chosen]})
        return Response(body, media_type="application/json")

    async def settings(self, http: Request) -> Response:
        """GET the settings; POST {"name": value, ...} to change some."""
        now = self._simulator.settings
        if http.method == "POST":
            changes = await sent(http, dict[str, Any], SETTINGS)
            if changes.get("clock", now.clock) != now.clock:
                raise Unfit(f"clock: it is {now.clock} for as long as this runs; start another with --clock")
            try:
                now = self._simulator.settings = checked(asdict(now) | changes)
            except msgspec.ValidationError as error:
                raise Unfit(f"{error}. {SETTINGS}.") from error
        return JSONResponse(asdict(now))

    async def reset(self, http: Request) -> Response:
        """POST: forget cache, scripts, faults, prices, log and limits."""
        self._simulator.reset()
        return JSONResponse({"reset": True})


def shown(record: Record, *, bodies: bool = True) -> dict[str, Any]:
    found = {
        "serial": record.serial,
        "request_id": record.request_id,
        "at": format_moment(record.at),
        "path": record.path,
        "wire": record.wire,
        "account": record.account,
        "model": record.model,
        "reply": record.reply,
        "status": record.status,
        "error": record.error,
        "usage": record.usage,
        "cost": round(record.cost, 9),
        "streamed": record.streamed,
        "finished": record.finished,
        "blocks": record.blocks,
        "hit": record.hit,
    }
    return {**found, "body": body_of(record)} if bodies else found


def body_of(record: Record) -> Any:
    """The body: JSON if it can be parsed, else the text."""
    try:
        msgspec.json.decode(record.body)
        return msgspec.Raw(record.body)
    except msgspec.DecodeError:
        return record.body.decode(errors="replace")
