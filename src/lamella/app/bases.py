"""Knowledge bases and the grants on them, for their owners."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from math import prod

from lamella.app.accounts import filled
from lamella.app.idempotency import CreationRequest, IdempotentCreation
from lamella.core.access import (
    MOST_ANSWERS,
    BaseContent,
    DescribedBy,
    FormField,
    Grant,
    GrantLevel,
    KnowledgeBase,
    RestrictedLevel,
    Subject,
)
from lamella.core.clock import Clock
from lamella.core.errors import InvalidRequest
from lamella.core.ids import Ids
from lamella.core.knowledge import Shelf
from lamella.core.records import Caller
from lamella.knowledge.restricted.summary import Reason
from lamella.storage.bases import AccessRows


class Bases:
    """Knowledge bases in the store, with validation. `removed` is called after one was deleted, so that its documents
    are cleared; `granted` after a grant changed. `missing` is what restricted access needs and the server lacks.
    """

    def __init__(
        self,
        access: AccessRows,
        once: IdempotentCreation,
        clock: Clock,
        ids: Ids,
        removed: Callable[[], None] = lambda: None,
        missing: Reason | None = None,
        granted: Callable[[Shelf], Awaitable[None]] | None = None,
    ) -> None:
        self._access = access
        self._once = once
        self._clock = clock
        self._ids = ids
        self._removed = removed
        self.missing = missing
        self._granted = granted

    async def create(self, caller: Caller, content: BaseContent, again: str | None = None) -> KnowledgeBase:
        """A new base of the caller; raises `InvalidRequest` for an empty name."""
        checked = _checked(content)

        async def find(base_id: str) -> KnowledgeBase:
            return await self._access.base(caller, base_id)

        async def make(base_id: str) -> KnowledgeBase:
            return await self._access.add_base(caller, base_id, checked, self._clock.now())

        asked = CreationRequest(again, "knowledge-bases", content)
        return await self._once.create(caller, asked, self._ids.new("kb"), find, make)

    async def change(self, caller: Caller, base_id: str, edit: Callable[[BaseContent], BaseContent]) -> KnowledgeBase:
        """The base as `edit` makes it; raises as `create` does."""
        return await self._access.change_base(caller, base_id, lambda now: _checked(edit(now)), self._clock.now())

    async def delete(self, caller: Caller, base_id: str) -> None:
        """Delete it with everything in it."""
        await self._access.delete_base(caller, base_id, self._clock.now())
        self._removed()

    async def grant(self, caller: Caller, base_id: str, subject_id: str, level: GrantLevel | None) -> Grant | None:
        """Grant a user or a group a level on a base, or remove their grant with None.

        Raises `InvalidRequest` for restricted access without the word lists: each question would be refused.
        """
        if level is GrantLevel.RESTRICTED and self.missing is Reason.NO_WORD_LISTS:
            raise InvalidRequest(
                "This server can't grant restricted access: the word lists of the guard are not installed.",
                hint="Run pip install 'lamella[restricted]' and start the server again.",
                param="level",
            )
        subject = Subject("group" if subject_id.startswith("group_") else "user", subject_id)
        made = await self._access.set_grant(caller, base_id, subject, level, self._clock.now())
        if self._granted is not None:
            await self._granted(Shelf(caller.user_id, base_id))
        return made


def described(content: BaseContent, summary: str, topics: Sequence[str]) -> BaseContent:
    """The base with this summary and these topics. If they differ from before, they count as a person's.

    Without either a model may write them again.
    """
    text, about = summary.strip(), _each(topics)
    if (text, about) == (content.summary, content.topics):
        return content
    by = DescribedBy.USER if text or about else DescribedBy.NOBODY
    return replace(content, summary=text, topics=about, described_by=by)


def _checked(content: BaseContent) -> BaseContent:
    return replace(
        content,
        name=filled(content.name),
        description=content.description.strip(),
        hint=content.hint.strip(),
        keywords=_each(content.keywords),
        confirmed_terms=_each(content.confirmed_terms),
        allowed_terms=_each(content.allowed_terms),
        contact=content.contact.strip(),
        form=_checked_form(content),
    )


def _checked_form(content: BaseContent) -> tuple[FormField, ...]:
    form = tuple(FormField(filled(one.name), _each(one.choices)) for one in content.form)
    if content.restricted_level is RestrictedLevel.FORM and not form:
        raise InvalidRequest("A base with a form needs fields.", hint="Give `form` with choices.", param="form")
    if any(len(one.choices) < 2 for one in form):
        raise InvalidRequest("Each field of a form needs two different choices or more.", param="form")
    if (answers := prod(len(one.choices) for one in form)) > MOST_ANSWERS:
        raise InvalidRequest(
            f"This form has {answers:,} different answers; at most {MOST_ANSWERS:,} (20 bits) are allowed.",
            hint="Leave out fields or choices.",
            param="form",
        )
    return form


def _each(words: Sequence[str]) -> tuple[str, ...]:
    """The non-empty words, each once."""
    return tuple(dict.fromkeys(word for one in words if (word := one.strip())))
