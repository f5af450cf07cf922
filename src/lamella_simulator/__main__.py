"""`python -m lamella_simulator`: the simulator as a process of its own, announced by one line on stdout.

An SDK takes its address as `base_url` and any key: `http://127.0.0.1:PORT` for Anthropic, with `/v1` for OpenAI.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from typing import cast

import msgspec

from lamella_simulator.app import create_app
from lamella_simulator.server import address_of, listen, server_of
from lamella_simulator.settings import Settings, checked
from lamella_simulator.tokens import load_in_background


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lamella_simulator", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--clock", choices=("virtual", "system"), default="virtual")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.0, help="streamed characters per second; 0 is no pause")
    parser.add_argument("--exit-with-stdin", action="store_true", help="stop when stdin closes")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="any field of simulator.settings"
    )
    return parser.parse_args(arguments)


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Raises msgspec.ValidationError for an option that is unknown or of the wrong type."""
    values: dict[str, object] = {"clock": arguments.clock, "seed": arguments.seed, "rate": arguments.rate}
    for option in cast(list[str], arguments.option):
        name, given, value = option.partition("=")
        if not given:
            raise msgspec.ValidationError(f"--option {option}: write it as NAME=VALUE")
        values[name] = {"true": True, "false": False}.get(value.lower(), value)
    return checked(values, strict=False)


def exit_with_stdin() -> None:
    """Ends the process at once when the parent is gone: nothing here needs saving."""

    def watch() -> None:
        while sys.stdin.buffer.read(4_096):
            pass
        os._exit(0)

    threading.Thread(target=watch, name="stdin", daemon=True).start()


async def serve(settings: Settings, host: str, port: int) -> None:
    """Listens, announces the address in one line on stdout, and serves until a signal comes."""
    try:
        listener = listen(host, port)
    except OSError as error:
        raise SystemExit(f"lamella_simulator: {host}:{port} cannot be listened on: {error.strerror}") from error
    # The socket already takes connections: they wait in its queue for the few milliseconds until the loop serves.
    line = msgspec.json.encode({"simulator": address_of(listener, host)})
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()
    load_in_background()
    await server_of(create_app(settings)).serve(sockets=[listener])


def main(arguments: Sequence[str]) -> int:
    parsed = parse_arguments(arguments)
    try:
        settings = settings_of(parsed)
    except msgspec.ValidationError as error:
        sys.stderr.write(f"lamella_simulator: {error}\n")
        return 2
    if parsed.exit_with_stdin:
        exit_with_stdin()
    asyncio.run(serve(settings, parsed.host, parsed.port))
    return 0


def run() -> None:
    """The command `lamella-simulator`."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
