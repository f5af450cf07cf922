"""The /_sim calls: scripts, clock, ledger, request log, settings, reset. They need no key."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lamella.simulator.blocks import encode
from lamella.simulator.clock import format_moment, parse_moment
from lamella.simulator.models import MODELS, Prices
from lamella.simulator.replies import Fault, Reply
from lamella.simulator.state import Record, Simulator


class Moment(msgspec.Struct):
    now: str | None = None
    advance_seconds: float = 0.0


class AdminRoutes:
    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    async def replies(self, http: Request) -> Response:
        """POST /_sim/replies {"ID": REPLY, ...}: adds to the script; scripting an ID again restarts its faults."""
        try:
            replies = msgspec.json.decode(await http.body(), type=dict[str, Reply])
        except msgspec.MsgspecError as error:
            return problem(str(error))
        self._simulator.script(replies)
        return JSONResponse({"stored": len(replies)})

    async def faults(self, http: Request) -> Response:
        """POST /_sim/faults [FAULT, ...]: what goes wrong with the next requests, one after the other; GET the rest."""
        if http.method == "POST":
            try:
                self._simulator.faults.extend(msgspec.json.decode(await http.body(), type=list[Fault]))
            except msgspec.MsgspecError as error:
                return problem(str(error))
        return JSONResponse({"faults": msgspec.to_builtins(list(self._simulator.faults))})

    async def prices(self, http: Request) -> Response:
        """GET the prices of every model; POST {"MODEL": PRICES, ...} sets those of some until the reset."""
        if http.method == "POST":
            try:
                prices = msgspec.json.decode(await http.body(), type=dict[str, Prices])
            except msgspec.MsgspecError as error:
                return problem(str(error))
            self._simulator.prices.update(prices)
        return JSONResponse({name: asdict(row) for name, row in self._prices().items()})

    def _prices(self) -> dict[str, Prices]:
        return {model.id: model.prices for model in MODELS} | self._simulator.prices

    async def clock(self, http: Request) -> Response:
        """GET the time; POST {"now": ISO 8601} or {"advance_seconds": N} to set it."""
        clock = self._simulator.clock
        if http.method == "POST":
            try:
                asked = msgspec.json.decode(await http.body(), type=Moment)
                moment = parse_moment(asked.now) if asked.now is not None else clock.now()
            except (msgspec.MsgspecError, ValueError) as error:
                return problem(str(error))
            clock.set(moment + asked.advance_seconds)
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
        last = int(http.query_params.get("last", "0")) or len(records)
        bodies = http.query_params.get("bodies", "yes") != "no"
        body = encode({"requests": [shown(record, bodies=bodies) for record in records[-last:]]})
        return Response(body, media_type="application/json")

    async def settings(self, http: Request) -> Response:
        """GET the settings; POST {"name": value, ...} to change some."""
        if http.method == "POST":
            try:
                changes = msgspec.json.decode(await http.body(), type=dict[str, Any])
                known = asdict(self._simulator.settings) | changes
                checked = msgspec.convert(known, type(self._simulator.settings), strict=True)
                if unknown := set(changes) - set(asdict(self._simulator.settings)):
                    return problem(f"no such setting: {min(unknown)}")
            except msgspec.MsgspecError as error:
                return problem(str(error))
            self._simulator.settings = replace(checked, clock=self._simulator.settings.clock)
        return JSONResponse(asdict(self._simulator.settings))

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
    """The body as it came, as JSON where it is some."""
    try:
        msgspec.json.decode(record.body)
        return msgspec.Raw(record.body)
    except msgspec.DecodeError:
        return record.body.decode(errors="replace")


def problem(message: str) -> Response:
    return JSONResponse({"error": message}, status_code=400)
