"""Who asks, and lists as they are given: by pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Every row has an owner and every store verb takes the caller; a foreign id is "not found"."""

    user_id: str


ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """One page of a list. `has_more` says whether another follows in the same order."""

    data: tuple[ItemT, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which page: at most `limit` items behind the id `after`, by id, newest first unless `order` is `asc`."""

    limit: int = 20
    after: str | None = None
    order: Literal["asc", "desc"] = "desc"
