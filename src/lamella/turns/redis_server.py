"""The Redis or Valkey server that replicas share: its address, its checks, and what the log says while it is away.

It is a doorbell, and carries live packets. Nothing is decided by it and nothing is lost with it: while it is away,
followers read the journal, and other processes look into the database once a second.

This module needs the package redis (`pip install 'lamella[redis]'`), so it is loaded only if LAMELLA_REDIS_URL is set.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from lamella.core.clock import Clock
from lamella.core.errors import ConfigurationError

log = structlog.get_logger()

SETTING = "LAMELLA_REDIS_URL"

OLDEST = 7
"""The first version that is supported. Valkey says as which Redis it behaves: 7.2."""

ANSWER_SECONDS = 2.0
"""The longest wait for a connection or for an answer. A server that takes longer counts as away."""

HINT = "Write redis://USER:PASSWORD@HOST:6379/0, or rediss:// for TLS."

_SCHEMES = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}
_TLS_FILES = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}

Failures = (RedisError, OSError)
"""What a call raises while the server is away, or refuses."""


def checked_url(url: str) -> str:
    """The URL as the client library reads it. Raises `ConfigurationError`, which never repeats the URL."""
    try:
        parts = urlsplit(url.strip())
        port, query = parts.port, parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise ConfigurationError("The address of Redis can't be read.", hint=HINT, param=SETTING) from error
    scheme, database = _SCHEMES.get(parts.scheme), parts.path.removeprefix("/")
    if scheme is None:
        raise ConfigurationError("The address of Redis has an unknown scheme.", hint=HINT, param=SETTING)
    if not parts.hostname or port == 0:
        raise ConfigurationError("The address of Redis names no server.", hint=HINT, param=SETTING)
    if database and not (database.isascii() and database.isdigit()):
        raise ConfigurationError("The address of Redis has no number as its database.", hint=HINT, param=SETTING)
    allowed = _TLS_FILES if scheme == "rediss" else set()
    if parts.fragment or not query.keys() <= allowed:
        hint = f"With rediss:// there may be {', '.join(sorted(_TLS_FILES))}."
        raise ConfigurationError("The address of Redis has an unknown option.", hint=hint, param=SETTING)
    return parts._replace(scheme=scheme).geturl()


def redis_client(url: str, answer_seconds: float = ANSWER_SECONDS) -> Redis:
    """A client that tries each command once. Raises `ConfigurationError` for an unusable URL."""
    return Redis.from_url(
        checked_url(url),
        socket_timeout=answer_seconds,
        socket_connect_timeout=min(answer_seconds, ANSWER_SECONDS),
        retry=Retry(NoBackoff(), 0),
        client_name="lamella",
    )


async def check_server(client: Redis) -> bool:
    """Whether the server answers. Raises `ConfigurationError` for one that is too old, or refuses the user."""
    try:
        found = await client.info("server")
    except AuthenticationError as error:
        raise ConfigurationError(
            f"Redis refuses the user: {error}.", hint="Look at the user and the password.", param=SETTING
        ) from error
    except NoPermissionError:
        return True  # the user may not ask for it
    except Failures:
        return False
    version = str(found.get("redis_version", ""))
    major = version.partition(".")[0]
    if major.isdigit() and int(major) < OLDEST:
        raise ConfigurationError(
            f"Redis {version} is too old.", hint=f"Use Redis {OLDEST} or newer, or Valkey.", param=SETTING
        )
    return True


class Outage:
    """Whether the server is away, for several connections to it together. The log gets one line when it goes, and one
    when it is back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[str, str] = {}
        self._since = 0.0

    @property
    def problem(self) -> str | None:
        """Why the server is away; None while it answers."""
        return next(iter(self._failing.values()), None)

    def failed(self, connection: str, error: Exception) -> None:
        """A connection, such as `reading`, does not work."""
        first = not self._failing
        self._failing[connection] = f"{type(error).__name__}: {error}"
        if first:
            self._since = self._clock.monotonic()
            log.error(
                "Redis is away: turns of other processes are followed by the journal, about a second late",
                error=self.problem,
            )

    def works(self, connection: str) -> None:
        """It works."""
        if self._failing.pop(connection, None) is not None and not self._failing:
            log.warning("Redis is back", away_seconds=round(self._clock.monotonic() - self._since, 1))
