"""Shared parts of API objects: construction from records, lists, and field types of bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from lamella.core.models import effort_named
from lamella.core.packets import UsageBody
from lamella.core.records import Page
from lamella.core.tokens import Usage
from lamella.search.passages import Snippet

PREFIX = "/api/v1"

Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A moment in ISO 8601 with its offset."""

AnyObject = Mapping[str, Any]
"""An object whose fields depend on its subject."""


class Object(msgspec.Struct, kw_only=True):
    """A JSON object of the API, with its fields in this order. UNSET fields are left out."""

    @classmethod
    def of(cls, record: object, **given: Any) -> Self:
        """Each field from `given`, else from the record's attribute of the same name. Moments become ISO 8601.

        `ModelObject.of(facts, id="claude-sonnet-5")` takes `provider`, `window` and the rest from `facts`.
        """
        kind: Any = type(record)
        names, values, moments = _shared(cls, kind, frozenset(getattr(record, "__dict__", ())))
        found = dict(zip(names, values(record), strict=True))
        found.update(given)
        for name in moments:
            moment = found[name]
            if moment.__class__ is datetime:
                found[name] = moment.isoformat()
        return cls(**found)


@cache
def _shared(
    kind: type[Object], record: type, own: frozenset[str]
) -> tuple[tuple[str, ...], Callable[[object], Any], tuple[str, ...]]:
    """The fields that an object shares with records of a type, a getter of their values, and which are moments.

    `own` are attributes that the record has in addition to those of its type.
    """
    named = own | ({field.name for field in fields(record)} if is_dataclass(record) else set())
    names = tuple(name for name in kind.__struct_fields__ if name in named or hasattr(record, name))
    hints = get_type_hints(kind, include_extras=True)
    moments = tuple(name for name in names if Moment in (hints[name], *get_args(hints[name])))
    if len(names) > 1:
        return names, attrgetter(*names), moments
    return names, lambda found: [getattr(found, name) for name in names], moments


class ErrorBody(Object, kw_only=True):
    """An error: `message` says what was wrong, `hint` what to do, `param` names the field or file."""

    message: str
    type: str
    code: str
    param: str | None
    hint: str | None


class ExpiredObject(Object, kw_only=True):
    """When packets or a request body were removed, and for how many days they had been kept."""

    at: Moment
    kept_days: int


class FailureObject(Object, kw_only=True):
    """The answer to a request that failed."""

    error: ErrorBody


class VendorErrorBody(Object, kw_only=True):
    """An error in the words of OpenAI's API; Anthropic's has neither `param` nor `code`."""

    message: str
    type: str
    param: str | UnsetType | None = UNSET
    code: str | UnsetType | None = UNSET


class VendorFailureObject(Object, kw_only=True):
    """A failure in the form of OpenAI's API, or with a `type` in that of Anthropic's."""

    error: VendorErrorBody
    type: Literal["error"] | UnsetType = UNSET


ItemT = TypeVar("ItemT")
RecordT = TypeVar("RecordT")
ObjectT = TypeVar("ObjectT", bound=Object)


class ListObject(Object, Generic[ItemT], kw_only=True):
    """A page of a list; `last_id` is the `after` of the next."""

    object: Literal["list"] = "list"
    data: list[ItemT]
    first_id: str | None
    last_id: str | None
    has_more: bool


def listed(page: Page[RecordT], shape: Callable[[RecordT], ObjectT], key: str = "id") -> ListObject[ObjectT]:
    """A page of a list. `key` names the field for the next page's `after`."""
    return whole_list([shape(record) for record in page.data], key, has_more=page.has_more)


def whole_list(data: list[ObjectT], key: str = "id", *, has_more: bool = False) -> ListObject[ObjectT]:
    """A list that is returned as it is, usually complete."""
    first, last = (str(getattr(data[0], key)), str(getattr(data[-1], key))) if data else (None, None)
    return ListObject(data=data, first_id=first, last_id=last, has_more=has_more)


class MarkObject(Object, kw_only=True):
    """Characters of a snippet that are a word of the query."""

    start: int
    end: int


class SnippetObject(Object, kw_only=True):
    """A piece of a text around the words of a query: it begins at character `start`, and `marks` are places in it."""

    text: str
    start: int
    marks: list[MarkObject]


def snippet_object(snippet: Snippet) -> SnippetObject:
    """A piece of a text."""
    marks = [MarkObject(start=left, end=right) for left, right in snippet.marks]
    return SnippetObject(text=snippet.text, start=snippet.start, marks=marks)


def usage_of(usage: Usage | None) -> UsageBody | None:
    """Tokens as clients see them."""
    return UsageBody.of(usage) if usage is not None else None


class PageParameters(BaseModel):
    """The query of a list."""

    limit: int = Field(20, ge=1, le=100)
    after: str | None = Field(None, max_length=80)
    order: Literal["asc", "desc"] = "desc"


Title = Annotated[str, StringConstraints(max_length=200)]

Id = Annotated[str, StringConstraints(max_length=80)]

Effort = Annotated[str, StringConstraints(max_length=20)] | Annotated[int, Field(ge=0, le=2**31 - 1)]
"""A thinking effort: off, a level, or tokens as a number or its digits."""


class Body(BaseModel):
    """A request body: strict types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid")


def effort_given(effort: str | int | None) -> str | None:
    """The effort of a body in its one spelling; raises `InvalidRequest`."""
    return effort_named(effort) if effort is not None else None


def effort_field(sent: Mapping[str, Any]) -> dict[str, Any]:
    """The effort that was sent, if any, in its one spelling."""
    return {"thinking_effort": effort_given(sent["thinking_effort"])} if "thinking_effort" in sent else {}
