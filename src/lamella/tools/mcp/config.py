"""Which MCP servers there are: a JSON file in the form that other MCP clients have too (`mcpServers`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from lamella.core.errors import ConfigurationError
from lamella.core.prompt import WhenOld

SETTING = "LAMELLA_MCP_SERVERS"
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]|_(?!_)){0,30}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A server: a `command` that speaks over its standard streams, or a `url` that speaks streamable HTTP.

    `env` is the process's environment, in addition to the search path and home folder. `tools` are those that are
    offered, None for all; `approval` those that need the user's approval, True for all; `timeout` is in seconds per
    call. `when_old` says what replaces a tool's old results, if not pruning.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 60.0
    tools: frozenset[str] | None = None
    approval: bool | frozenset[str] = False
    when_old: Mapping[str, WhenOld] = field(default_factory=dict)

    @property
    def transport(self) -> str:
        """`stdio` or `http`."""
        return "stdio" if self.command else "http"


class _Server(msgspec.Struct, forbid_unknown_fields=True):
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    timeout: float = 60.0
    tools: frozenset[str] | None = None
    approval: bool | frozenset[str] = False
    when_old: dict[str, WhenOld] = {}
    type: str = ""
    disabled: bool = False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    mcpServers: dict[str, _Server]


def read_servers(path: Path | None, environment: Mapping[str, str]) -> tuple[ServerConfig, ...]:
    """The servers of a file, sorted by name; none without a file. `${NAME}` is replaced from the environment.

    Raises `ConfigurationError` with the place.
    """
    if path is None:
        return ()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}.", hint=_HINT, param=SETTING) from None
    try:
        servers = msgspec.json.decode(text, type=_File).mcpServers
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path}: {error}.", hint=_HINT, param=SETTING) from None
    made = (_config(name, servers[name], environment, path) for name in sorted(servers))
    return tuple(config for config, server in zip(made, _sorted(servers), strict=True) if not server.disabled)


_HINT = 'Write {"mcpServers": {"NAME": {"command": "…", "args": []}}}, or "url" in the place of "command".'


def _sorted(servers: Mapping[str, _Server]) -> list[_Server]:
    return [servers[name] for name in sorted(servers)]


def _config(name: str, server: _Server, environment: Mapping[str, str], path: Path) -> ServerConfig:
    def wrong(what: str, hint: str = _HINT) -> ConfigurationError:
        return ConfigurationError(f"{path}: the server “{name}” {what}.", hint=hint, param=SETTING)

    def filled(text: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] not in environment:
                raise wrong(f"names the variable {match[1]}, which is not set", "Set it, or write the value.")
            return environment[match[1]]

        return _VARIABLE.sub(value, text)

    if not _NAME.fullmatch(name):
        raise wrong("has a name that tools can't begin with", "Use at most 31 letters, digits, - and single _.")
    if bool(server.command) == bool(server.url):
        raise wrong("needs either a command or a url")
    if server.url and not server.url.startswith(("http://", "https://")):
        raise wrong("has a url that begins with neither http:// nor https://")
    if server.timeout <= 0:
        raise wrong("has a timeout that is not positive")
    return ServerConfig(
        name=name,
        command=server.command,
        args=tuple(map(filled, server.args)),
        env={key: filled(value) for key, value in server.env.items()},
        cwd=server.cwd,
        url=server.url,
        headers={key: filled(value) for key, value in server.headers.items()},
        timeout=server.timeout,
        tools=server.tools,
        approval=server.approval,
        when_old=server.when_old,
    )
