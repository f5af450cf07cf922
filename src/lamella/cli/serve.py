"""`lamella serve`: the server, and what a person needs to know when it is up."""

from __future__ import annotations

import asyncio
import errno
import resource
import signal
import socket
import sys
from contextlib import AsyncExitStack, suppress
from secrets import token_hex
from types import FrameType
from typing import Annotated

import structlog
import typer
import uvicorn
from uvicorn.loops.auto import auto_loop_factory

from lamella.app.app import App, open_app
from lamella.app.demonstration import NOTICE
from lamella.app.garbage import collect_in_pauses, keep_loaded
from lamella.cli.api import announced
from lamella.cli.logs import configure_logs
from lamella.cli.main import DataOption, ModelOption, cli
from lamella.core.errors import ConfigurationError, LamellaError
from lamella.server.authentication import LOOPBACK, Authentication
from lamella.server.balancing import read_proxies
from lamella.server.connections import Limits, bounded
from lamella.server.web import create_web
from lamella.settings import Settings, read_settings

log = structlog.get_logger()

PORT = 8377

SWITCH_SECONDS = 0.0005
"""For so long a thread that reads a long window may keep the event loop waiting; Python's own 5 ms are felt in every
stream, two or three times for each chunk.
"""

FILES_BESIDE = 256
"""Files that a server has open besides its connections: database, uploads, providers, tools."""


@cli.command("serve")
def serve_command(
    host: Annotated[
        str, typer.Option(help="The address to listen on. Keys are needed if other machines can reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = PORT,
    data: DataOption = None,
    model: ModelOption = None,
) -> None:
    """Serve the page and the API."""
    settings = read_settings(data=data, model=model)
    configure_logs(settings.log_file)
    sys.setswitchinterval(SWITCH_SECONDS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(_serve(host, port, settings))


async def _serve(host: str, port: int, settings: Settings) -> None:
    listener = _listen(host, port)
    shown = f"http://[{host}]:" if ":" in host else f"http://{host}:"
    url = f"{shown}{listener.getsockname()[1]}"
    async with open_app(settings) as app, AsyncExitStack() as stack:
        token = await app.accounts.first_run_token()
        authentication = Authentication(app.accounts, is_local=host in LOOPBACK, first_run_token=token or token_hex(16))
        await stack.enter_async_context(announced(settings.data, _here(url), token))
        config = uvicorn.Config(
            create_web(app, authentication),
            log_config=None,
            access_log=False,
            proxy_headers=False,  # those of trusted proxies are read in `create_web`
            timeout_graceful_shutdown=2,
            lifespan="off",
            ws="none",
            http=bounded(_limits(settings)),
        )
        _announce(app, url, token, authentication.is_local)
        settling = asyncio.create_task(_settle(app))
        try:
            await _Server(config, app).serve(sockets=[listener])
        finally:
            settling.cancel()


def _limits(settings: Settings) -> Limits:
    """How many connections the limit of open files leaves for, besides the other files of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections + FILES_BESIDE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft != resource.RLIM_INFINITY and soft < wanted:
        log.warning("fewer connections than set: the system lets this process open no more files", files=soft)
        wanted = soft
    trusted = read_proxies(settings.trusted_proxies)
    return Limits(max(1, wanted - FILES_BESIDE), settings.connections_per_address, trusted=trusted)


def _here(url: str) -> str:
    """The address as a program of this machine reaches it."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


async def _settle(app: App) -> None:
    """When all is loaded, keep it out of garbage collections, and have what comes later looked through in pauses."""
    with suppress(LamellaError):
        await app.models.warm()
    keep_loaded()
    await collect_in_pauses(lambda: app.chat.is_idle)


class _Server(uvicorn.Server):
    """Drains after SIGTERM, then ends the running turns while connections are closed, so that clients who follow one
    see how it ended.
    """

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._lamella = app
        self._asked_to_drain = False
        self._drain_ends: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and not self._asked_to_drain and self._lamella.settings.drain_seconds:
            self._captured_signals.append(sig)
            self._asked_to_drain = True  # and what it takes is done between two callbacks of the loop
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if self._asked_to_drain:
            self._drain()
        return await super().on_tick(counter)

    def _drain(self) -> None:
        """Begin to drain, and end when nothing runs any more or the time is over."""
        now = asyncio.get_running_loop().time()
        if self._drain_ends is None:
            self._drain_ends = now + self._lamella.settings.drain_seconds
            self._lamella.chat.drain()
            log.info("draining", seconds=self._lamella.settings.drain_seconds)
        is_idle = self._lamella.chat.is_idle and not self.server_state.tasks
        self.should_exit = self.should_exit or is_idle or now >= self._drain_ends

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.gather(super().shutdown(sockets), self._lamella.chat.close())


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol's number asyncio leaves Nagle's algorithm on, and a first token can wait 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        raise ConfigurationError(
            f"Port {port} of {host} can't be used: {error.strerror}.",
            hint="Choose another with --port." if taken else "Choose an address of this machine with --host.",
        ) from error
    listener.listen(512)
    return listener


def _announce(app: App, url: str, token: str | None, is_local: bool) -> None:
    sys.stdout.write(f"Lamella   {url}\n")
    sys.stdout.write(f"data      {app.settings.data}\n")
    sys.stdout.write(f"model     {app.models.default}\n")
    if app.models.is_demonstration:
        sys.stdout.write(f"          {NOTICE}\n")
    if token is not None:
        until = "no key is needed on this machine" if is_local else "nobody gets in"
        where = "" if is_local else "on the page, or "
        sys.stdout.write(f"accounts  {until} until the first admin is made, {where}with\n")
        sys.stdout.write("          lamella users setup NAME\n")
        sys.stdout.write(f"token     {token}\n")
    if not is_local:
        sys.stdout.write("          keys travel as they are: put TLS in front of this address\n")
    sys.stdout.flush()
