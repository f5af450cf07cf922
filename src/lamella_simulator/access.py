"""What every route does first: whose key it is, what time it is, which reply is asked for; and the closing headers."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from starlette.requests import Request

from lamella_simulator.clock import format_moment, parse_moment
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.models import Wire
from lamella_simulator.replies import CONTENT_FAULTS, HTTP_FAULTS, Fault, Reply
from lamella_simulator.state import Record, Simulator
from lamella_simulator.stream import Cut, Pace

BEARER_VERSION = "2026-10-21"
"""What SDK 2 sends, with its key as a bearer token; SDK 1 sends 2023-06-01 and `x-api-key`."""
VERSIONS = ("2023-01-01", "2023-06-01", BEARER_VERSION)
WORKSPACES = ("anthropic-workspace-id", "openai-organization", "openai-project")
"""Headers that choose another account of the same key: caches are not shared between them."""
FAULT_MESSAGES = {
    429: "Number of request tokens has exceeded your per-minute rate limit.",
    500: "Internal server error",
    504: "The request timed out while processing.",
    529: "Overloaded",
}


@dataclass(slots=True)
class Call:
    """One authenticated request on its way: `now` is its own time, virtual or real."""

    body: bytes
    account: str
    now: float
    record: Record
    request_id: str
    reply_id: str | None
    rate: float | None
    betas: frozenset[str]


def key_of(request: Request) -> str:
    """The API key, in either style."""
    bearer = request.headers.get("authorization", "")
    scheme, _, token = bearer.partition(" ")
    return request.headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")


def authenticate(request: Request, simulator: Simulator) -> str:
    """The account of the key: its hash, so that no log or ledger holds a key. Raises 401."""
    key = key_of(request)
    if not key:
        raise ProviderError(401, "No API key was provided.", code="missing_api_key")
    if key.startswith(simulator.settings.rejected_key_prefix):
        raise ProviderError(401, "invalid x-api-key", code="invalid_api_key")
    spaces = [f"|{request.headers[name]}" for name in WORKSPACES if name in request.headers]
    return hashlib.blake2b("".join((key, *spaces)).encode(), digest_size=6).hexdigest()


async def open_call(request: Request, simulator: Simulator, wire: Wire) -> Call:
    """Reads the body and starts its record; what may fail comes in `start_call`, when errors can be worded."""
    body = await request.body()
    reply_id = request.headers.get("x-sim-reply")
    betas = frozenset(beta.strip() for beta in request.headers.get("anthropic-beta", "").split(","))
    record = simulator.open_record(wire, request.url.path, body, simulator.clock.now(), reply_id)
    return Call(body, "", record.at, record, record.request_id, reply_id, None, betas)


def start_call(call: Call, request: Request, simulator: Simulator) -> None:
    call.account = call.record.account = authenticate(request, simulator)
    if call.record.wire == "anthropic":
        check_version(request, simulator)
    call.now = call.record.at = request_time(request, simulator)
    call.rate = request_rate(request)


def check_version(request: Request, simulator: Simulator) -> None:
    """Raises 400 for a version of the Messages API that there is not, and by option for none."""
    version = request.headers.get("anthropic-version")
    if version is None and simulator.settings.require_version:
        raise invalid("anthropic-version: header is required")
    if version not in (None, *VERSIONS):
        raise invalid(f'anthropic-version: "{version}" is not a valid version')
    if version == BEARER_VERSION and "x-api-key" in request.headers and simulator.settings.new_version_wants_bearer:
        raise ProviderError(401, f"anthropic-version {version} takes its key as `Authorization: Bearer`")


def request_time(request: Request, simulator: Simulator) -> float:
    """`x-sim-now` rules this request under the virtual clock; real time ignores it."""
    header = request.headers.get("x-sim-now")
    if header is None or simulator.clock.real:
        return simulator.clock.now()
    try:
        return parse_moment(header)
    except ValueError as error:
        raise invalid(f"x-sim-now: {header!r} is not an ISO 8601 time") from error


def request_rate(request: Request) -> float | None:
    """The request's own pace. None is the pace of the settings, which may change while the answer streams."""
    header = request.headers.get("x-sim-rate")
    if header is None:
        return None
    try:
        rate = float(header)
    except ValueError:
        rate = math.nan
    if not rate >= 0:
        raise invalid(f"x-sim-rate: {header!r} is not a number of characters per second")
    return rate


def raise_early(fault: Fault | None) -> None:
    """The HTTP faults that come before the first byte."""
    if fault is not None and fault.name in HTTP_FAULTS and fault.when in (None, "before"):
        raise fault_error(fault)


def fault_error(fault: Fault) -> ProviderError:
    status = int(fault.name) if fault.name in HTTP_FAULTS else 529
    seconds = fault.retry_after
    if isinstance(seconds, bool) or seconds is None:
        seconds = 1.0 if status == 429 and seconds is not False else None
    return ProviderError(status, FAULT_MESSAGES[status], retry_after=seconds)


def cut_of(fault: Fault | None) -> Cut | None:
    """Where the stream breaks, for the faults that break it half way."""
    if fault is None or fault.name not in (*HTTP_FAULTS, "stream_error", "drop_after"):
        return None
    characters = fault.when if isinstance(fault.when, int) else 0
    return Cut(characters, None if fault.name == "drop_after" else fault_error(fault))


def content_fault(fault: Fault | None) -> tuple[str | None, int | None]:
    """The faults that change what is said, for `drafting.compose`."""
    if fault is None or fault.name not in CONTENT_FAULTS:
        return None, None
    return fault.name, fault.when if isinstance(fault.when, int) else None


def pace_of(reply: Reply, fault: Fault | None, call: Call, simulator: Simulator) -> Pace:
    first = (reply.ttft_ms if reply.ttft_ms is not None else simulator.settings.ttft_ms) / 1_000
    if fault is not None and fault.name == "slow":
        first += fault.ms / 1_000
    own = call.rate
    rate = (lambda: simulator.settings.rate) if own is None else (lambda: own)
    return Pace(first, reply.ms / 1_000 if reply.ms is not None else None, rate)


def anthropic_headers(call: Call, simulator: Simulator) -> dict[str, str]:
    headers = {"request-id": call.request_id, "anthropic-organization-id": f"org-{call.account}"}
    reset = format_moment(call.now + 60)
    for name, (limit, remaining) in simulator.allowance(call.account, call.now).items():
        headers[f"anthropic-ratelimit-{name}-limit"] = str(limit)
        headers[f"anthropic-ratelimit-{name}-remaining"] = str(remaining)
        headers[f"anthropic-ratelimit-{name}-reset"] = reset
    return headers


def openai_headers(call: Call, simulator: Simulator) -> dict[str, str]:
    headers = {"x-request-id": call.request_id, "openai-organization": f"org-{call.account}"}
    names = {"requests": "requests", "input-tokens": "tokens"}
    for name, (limit, remaining) in simulator.allowance(call.account, call.now).items():
        headers[f"x-ratelimit-limit-{names[name]}"] = str(limit)
        headers[f"x-ratelimit-remaining-{names[name]}"] = str(remaining)
        headers[f"x-ratelimit-reset-{names[name]}"] = "1m0s"
    return headers


def error_headers(error: ProviderError) -> dict[str, str]:
    return {} if error.retry_after is None else {"retry-after": f"{error.retry_after:g}"}
