"""A model beside the conversations' own, at an endpoint that its settings name."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import SecretStr

from lamella.app.providers import NO_KEY, Endpoint, endpoints, usual_url, vendor_of
from lamella.core.errors import ConfigurationError
from lamella.settings import Settings


@dataclass(frozen=True, slots=True)
class OwnModel:
    """The settings of one such model: all their names begin with `prefix`; `purpose` is what it is for."""

    prefix: str
    purpose: str
    name: str | None
    provider: str | None
    api_key: SecretStr | None
    base_url: str | None

    def variable(self, part: str) -> str:
        """The variable that says this."""
        return f"{self.prefix}_{part}"

    @property
    def said(self) -> str | None:
        """The first variable that says where the model is."""
        given = {"PROVIDER": self.provider, "API_KEY": self.api_key, "BASE_URL": self.base_url}
        return next((self.variable(part) for part, value in given.items() if value is not None), None)


def compaction_model(settings: Settings) -> OwnModel:
    """The model that makes summaries."""
    s = settings
    own = s.compaction_model, s.compaction_provider, s.compaction_api_key, s.compaction_base_url
    return OwnModel("LAMELLA_COMPACTION", "summaries", *own)


def restricted_model(settings: Settings) -> OwnModel:
    """The model that reads documents with restricted access."""
    s = settings
    own = s.restricted_model, s.restricted_provider, s.restricted_api_key, s.restricted_base_url
    return OwnModel("LAMELLA_RESTRICTED", "restricted access", *own)


def own_endpoint(settings: Settings, own: OwnModel) -> Endpoint | None:
    """Where the model is, None where only its name is said: what is not said is as for the conversations' models of the
    same provider. Raises `ConfigurationError` for half a configuration.
    """
    name, said = own.name, own.said
    if name is None and said is not None:
        raise ConfigurationError(
            f"{said} is set, but no model for {own.purpose}.", hint=f"Set {own.variable('MODEL')} too.", param=said
        )
    if name is None or said is None:
        return None
    provider = own.provider or vendor_of(name)
    if provider not in ("anthropic", "openai"):
        raise ConfigurationError(
            f"It is not known who serves the model “{name}” for {own.purpose}.",
            hint=f"Set {own.variable('PROVIDER')} to anthropic or openai.",
            param=own.variable("PROVIDER"),
        )
    usual = endpoints(settings).get(provider)
    url = own.base_url or (usual.base_url if usual else usual_url(provider))
    key = own.api_key.get_secret_value() if own.api_key is not None else usual.key if usual is not None else NO_KEY
    if key == NO_KEY and own.base_url is None:
        raise ConfigurationError(
            f"There is no key for the model “{name}” for {own.purpose}.",
            hint=f"Set {own.variable('API_KEY')}.",
            param=own.variable("API_KEY"),
        )
    return Endpoint(provider, url, key, settings.provider_timeout, settings.provider_retries)
