"""The settings of a trace: all that a request may depend on, and nothing of where a deployment is or of its keys."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from lamella.settings import Settings, given_settings
from lamella_lab.trace.settings import CARRIED, UNUSED, carried_settings, settings_of

from .traces import asked, example, run

pytestmark = pytest.mark.anyio


def test_what_is_carried_is_read_as_it_was() -> None:
    said = {"context_budget": "90k", "compaction_threshold": "12%", "cache_ttl": "1h", "cache_enabled": False}
    settings = given_settings(said | {"reminder": "Bitte höflich.", "debounce_ms": 500})
    again = settings_of(dict(carried_settings(settings)))
    assert {name: getattr(again, name) for name in CARRIED} == {name: getattr(settings, name) for name in CARRIED}


def test_no_key_and_no_address_is_carried() -> None:
    words = ("key", "url", "path", "file", "servers")
    secret = [name for name, field in Settings.model_fields.items() if field.annotation == SecretStr | None]
    assert secret
    assert set(secret) <= UNUSED
    assert [name for name in CARRIED if any(word in name.split("_") for word in words)] == []


def test_the_environment_says_nothing_to_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_MAX_OUTPUT", "77")
    assert settings_of({}).max_output == Settings.model_fields["max_output"].default


async def test_a_replay_goes_by_the_settings_of_its_trace() -> None:
    turns = [asked(0), asked(1)]
    report = await run(example(turns=turns, settings={"cache_ttl": "1h", "max_output": 900}))
    bodies = [request.body.decode() for request in report.requests]
    assert all('"max_tokens":900' in body for body in bodies)
    assert any('"ttl":"1h"' in body for body in bodies)
    assert not any('"ttl":"5m"' in body for body in bodies)
