"""Which model answers, by the variables that are set, and as whom the provider is spoken to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamella.app.demonstration import MODEL as DEMONSTRATION
from lamella.app.providers import ANTHROPIC_URL, OPENAI_URL, Providers, endpoints
from lamella.core.errors import ConfigurationError, InvalidRequest
from lamella.llm.model_table import ModelTable
from lamella.settings import Settings, read_settings

pytestmark = pytest.mark.anyio

VARIABLES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "LAMELLA_MODEL",
    "LAMELLA_OPENAI_API",
)
ANTHROPIC = {"ANTHROPIC_API_KEY": "key-a"}
OPENAI = {"OPENAI_API_KEY": "key-o"}
LOCAL = {"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets exactly these variables and reads the settings from them."""

    def read(**given: str) -> Settings:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        return read_settings(data=Path("/nowhere"))

    return read


def providers(settings: Settings) -> Providers:
    return Providers(settings, ModelTable.shipped())


@pytest.mark.parametrize(
    ("given", "default", "provider", "url"),
    [
        (ANTHROPIC, "claude-sonnet-5-5", "anthropic", ANTHROPIC_URL),
        (OPENAI, "gpt-6.1-terra", "openai", OPENAI_URL),
        ({**ANTHROPIC, **OPENAI}, "claude-sonnet-5-5", "anthropic", ANTHROPIC_URL),
        ({**OPENAI, "LAMELLA_MODEL": "gpt-5.6"}, "gpt-5.6", "openai", OPENAI_URL),
        ({**ANTHROPIC, **OPENAI, "LAMELLA_MODEL": "gpt-5.6"}, "gpt-5.6", "openai", OPENAI_URL),
        ({**LOCAL, "LAMELLA_MODEL": "llama3:8b"}, "llama3:8b", "openai", LOCAL["OPENAI_BASE_URL"]),
        (
            {**ANTHROPIC, **LOCAL, "LAMELLA_MODEL": "openai:llama3:8b"},
            "openai:llama3:8b",
            "openai",
            LOCAL["OPENAI_BASE_URL"],
        ),
        ({**LOCAL, "LAMELLA_MODEL": "claude-opus-5"}, "claude-opus-5", "openai", LOCAL["OPENAI_BASE_URL"]),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}, "claude-sonnet-5-5", "anthropic", "http://127.0.0.1:1"),
        ({"OPENAI_API_KEY": "", **ANTHROPIC}, "claude-sonnet-5-5", "anthropic", ANTHROPIC_URL),
    ],
)
def test_the_variables_choose_the_model(
    variables: Any, given: dict[str, str], default: str, provider: str, url: str
) -> None:
    settings = variables(**given)
    served = providers(settings)
    assert (served.default, served.is_demonstration) == (default, False)
    assert served.provider_of(default) == provider
    assert endpoints(settings)[provider].base_url == url
    assert served.names()[0] == default
    assert default.endswith(served.facts(default).name)


def test_without_any_provider_there_is_the_demonstration(variables: Any) -> None:
    served = providers(variables())
    assert (served.default, served.is_demonstration, served.names()) == (DEMONSTRATION, True, (DEMONSTRATION,))
    with pytest.raises(InvalidRequest, match="claude-opus-5"):
        served.facts("claude-opus-5")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (ANTHROPIC, "gpt-5.6"),
        (OPENAI, "claude-opus-5"),
        ({**ANTHROPIC, **OPENAI}, "llama3"),
        ({**ANTHROPIC, **OPENAI}, "mistral:large"),
        ({**ANTHROPIC, **OPENAI}, "openai:"),
        (ANTHROPIC, "openai:gpt-5.6"),
        ({**ANTHROPIC, "LAMELLA_MODEL": "openai:gpt-5.6"}, "openai:gpt-5.6"),
        (ANTHROPIC, DEMONSTRATION),
    ],
)
def test_a_model_that_nobody_serves_is_refused(variables: Any, given: dict[str, str], name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        providers(variables(**given)).facts(name)
    assert (refused.value.param, name in refused.value.message) == ("model", True)
    assert refused.value.hint


def test_a_name_may_say_who_serves_it(variables: Any) -> None:
    served = providers(variables(**ANTHROPIC, **LOCAL))
    for name, provider, bare in [
        ("openai:claude-opus-5", "openai", "claude-opus-5"),
        ("anthropic:my-own", "anthropic", "my-own"),
        ("openai:qwen3:30b", "openai", "qwen3:30b"),
    ]:
        facts = served.facts(name)
        assert (facts.provider, facts.name, facts.known) == (provider, bare, False)


def test_an_account_is_told_by_address_and_key_without_showing_it(variables: Any) -> None:
    one = endpoints(variables(ANTHROPIC_API_KEY="key-1"))["anthropic"].account
    two = endpoints(variables(ANTHROPIC_API_KEY="key-2"))["anthropic"].account
    elsewhere = endpoints(variables(ANTHROPIC_API_KEY="key-1", ANTHROPIC_BASE_URL="http://127.0.0.1:1"))[
        "anthropic"
    ].account
    assert len({one, two, elsewhere}) == 3
    assert "key" not in one


def test_keys_are_not_printed(variables: Any) -> None:
    settings = variables(ANTHROPIC_API_KEY="key-secret-1", OPENAI_API_KEY="key-secret-2")
    assert "secret" not in repr(settings)
    assert "secret" not in settings.model_dump_json()


@pytest.mark.parametrize(
    ("name", "value"),
    [("LAMELLA_CONTEXT_BUDGET", "many"), ("LAMELLA_STEP_LIMIT", "0"), ("LAMELLA_MAX_UPLOAD_BYTES", "-1")],
)
def test_a_setting_that_cannot_be_used_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=name):
        read_settings()


async def test_a_model_is_opened_once(variables: Any) -> None:
    served = providers(variables(ANTHROPIC_BASE_URL="http://127.0.0.1:1"))
    opened = await served.open("claude-opus-5")
    assert await served.open("claude-opus-5") is opened
    assert await served.open("claude-opus-4-8") is not opened
    await served.close()


@pytest.mark.parametrize(
    ("given", "name", "protocol"),
    [
        (OPENAI, "gpt-6.1-terra", "responses"),
        (OPENAI, "gpt-6.1-terra-2026-10-01", "responses"),
        ({**OPENAI, "LAMELLA_OPENAI_API": "chat"}, "gpt-6.1-terra", "openai"),
        ({**OPENAI, **LOCAL}, "gpt-6.1-terra", "openai"),
        ({**LOCAL, "LAMELLA_OPENAI_API": "responses"}, "llama3:8b", "responses"),
        ({**LOCAL}, "llama3:8b", "openai"),
        ({**ANTHROPIC, "LAMELLA_OPENAI_API": "responses"}, "claude-opus-5", "anthropic"),
    ],
)
def test_which_protocol_a_model_is_spoken_to_in(
    variables: Any, given: dict[str, str], name: str, protocol: str
) -> None:
    """Responses at OpenAI, Chat Completions at servers that speak like it; a setting overrules both."""
    assert providers(variables(**given)).facts(name).protocol == protocol
