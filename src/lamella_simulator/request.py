"""What the bodies of all wires share: their common fields, and how a body becomes a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from lamella_simulator.blocks import Json
from lamella_simulator.errors import ProviderError, invalid

Shape = TypeVar("Shape", bound="ModelRequest")


class ModelRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request to a model; a field that the simulator does not know is a 400."""

    model: str

    @property
    def streams(self) -> bool:
        return False


class AnswerRequest(ModelRequest, kw_only=True):
    """A request for an answer in words or calls."""

    tools: list[Json] = []
    stream: bool = False
    temperature: float | None = None
    top_p: float | None = None
    metadata: Json | None = None
    service_tier: str | None = None

    @property
    def streams(self) -> bool:
        return self.stream


def parsed(body: bytes, shape: type[Shape], worded: Callable[[str], ProviderError], broken: str) -> Shape:
    """The request of a body. Raises 400: `worded` says msgspec's complaint in the vendor's words, `broken` begins
    what is said of a body that is not JSON.
    """
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise worded(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"{broken}: {error}") from error
