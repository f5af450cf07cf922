"""Lists as they are asked for and given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field

from lamella.core.records import (
    Page,
)


class PageParameters(BaseModel):
    """The query of a list."""

    limit: int = Field(20, ge=1, le=100)
    after: str | None = Field(None, max_length=80)
    order: Literal["asc", "desc"] = "desc"


Json = dict[str, Any]


ItemT = TypeVar("ItemT")


def list_json(page: Page[ItemT], shape: Callable[[ItemT], Json], key: str = "id") -> Json:
    """A page of a list; `key` names the field that the next page's `after` takes."""
    return _list([shape(item) for item in page.data], key, has_more=page.has_more)


def whole_list_json(data: list[Json], key: str = "id") -> Json:
    """A list that is always given whole."""
    return _list(data, key, has_more=False)


def _list(data: list[Json], key: str, *, has_more: bool) -> Json:
    first, last = (str(data[0][key]), str(data[-1][key])) if data else (None, None)
    return {"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more}
