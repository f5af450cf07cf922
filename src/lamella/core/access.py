"""Users, groups, keys, and who may read which knowledge base: the nouns, and the one decision about a level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from lamella.core.records import Caller

LOCAL_USER = "user_local"
"""The person at this machine: the only user until accounts are set up, and then the first admin."""


class Role(StrEnum):
    """The role of a user on the server. No role gives access to another user's conversations, files or bases."""

    ADMIN = "admin"
    """Keeps users, groups and their keys."""

    MEMBER = "member"


class Scope(StrEnum):
    """The most that a key allows. The user's own rights limit it further."""

    READ = "read"
    """Read one's own data."""

    WRITE = "write"
    """Change it, and talk to models."""

    MANAGE = "manage"
    """Make and revoke keys, grant access to bases, and as an admin keep users and groups."""


EVERY_SCOPE = frozenset(Scope)


class GrantLevel(StrEnum):
    """How much of a knowledge base a user may read."""

    NONE = "none"
    RESTRICTED = "restricted"
    """May ask: a second model answers, and the guard filters its answer. May not read passages."""

    FULL = "full"


_RANK = {GrantLevel.NONE: 0, GrantLevel.RESTRICTED: 1, GrantLevel.FULL: 2}


@dataclass(frozen=True, slots=True)
class User:
    """A person with access to the server. A `disabled` user may not send requests."""

    id: str
    name: str
    role: Role
    created_at: datetime
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class UserChange:
    """What to change of a user; None leaves it."""

    name: str | None = None
    role: Role | None = None
    disabled: bool | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Users who are granted access together; `members` in the order of their ids."""

    id: str
    name: str
    created_at: datetime
    members: tuple[User, ...] = ()


class LineStorage(StrEnum):
    """What is stored of the requests of a key's client."""

    FULL = "full"
    HASHES = "hashes"
    """Digests, lengths and figures, and no text."""

    OFF = "off"


class ContextOption(StrEnum):
    """What is done with the histories that a key's client sends again."""

    OFF = "off"
    """They are sent on as they are."""

    MANAGE = "manage"
    """Old messages are replaced by summaries, and old results of tools by stubs, if that pays."""


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """What is done for the client that has a key. None: as the settings of the server say."""

    storage: LineStorage | None = None
    context: ContextOption | None = None


NO_OPTIONS = KeyOptions()


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as it is stored: `prefix` finds it, `digest` is the SHA-256 of the whole key. The key itself is not
    stored.

    `issued_by` is the user who made it. A key from a page's login has a `parent` and is revoked with it.
    """

    id: str
    user_id: str
    name: str
    prefix: str
    digest: bytes = field(repr=False)
    scopes: frozenset[Scope]
    issued_by: str
    created_at: datetime
    expires_at: datetime | None = None
    parent_id: str | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    options: KeyOptions = NO_OPTIONS

    def is_open(self, now: datetime) -> bool:
        """Whether it opens anything at this moment; its parent is looked at apart."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Identity:
    """The user who sent a request, and the scopes of the key. Without a key it is the local user of this machine."""

    caller: Caller
    name: str
    role: Role
    scopes: frozenset[Scope] = EVERY_SCOPE
    key_id: str | None = None
    options: KeyOptions = NO_OPTIONS


class DescribedBy(StrEnum):
    """Whose words the summary and the topics of a base are."""

    NOBODY = "nobody"
    MODEL = "model"
    """Written by a model, again after each change of the documents."""

    USER = "user"
    """Never written over."""


class RestrictedLevel(StrEnum):
    """What restricted readers get of a base."""

    SUMMARY = "summary"
    """Summaries that the guard lets through."""

    FORM = "form"
    """Answers that the second model picks from the owner's choices, and no word of its own."""

    EXISTENCE = "existence"
    """Whether there is something about a question, and whom to ask."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A part of every answer of a base with a form: the second model picks one of the choices.

    For example `FormField("Notice period", ("a month", "longer", "not said"))`.
    """

    name: str
    choices: tuple[str, ...]


MOST_ANSWERS = 2**20
"""Different answers that a form may give: 20 bits, as four fields of 32 choices."""


@dataclass(frozen=True, slots=True)
class BaseContent:
    """The texts that describe a knowledge base.

    `visible`: members without a grant see its name and description, so that they can ask for access. `hint` and
    `keywords`: what its owner lets restricted readers know of it, so that they ask the right questions. `summary` and
    `topics` say what its documents are about, for full readers only. Restricted readers
    are never told `confirmed_terms`, which its owner calls names, and may be told `allowed_terms`. `restricted_level`
    is how much they get; `contact` says whom to ask.
    """

    name: str
    description: str = ""
    visible: bool = False
    hint: str = ""
    keywords: tuple[str, ...] = ()
    summary: str = ""
    topics: tuple[str, ...] = ()
    described_by: DescribedBy = DescribedBy.NOBODY
    confirmed_terms: tuple[str, ...] = ()
    allowed_terms: tuple[str, ...] = ()
    restricted_level: RestrictedLevel = RestrictedLevel.SUMMARY
    contact: str = ""
    form: tuple[FormField, ...] = ()


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """A knowledge base as its caller may see it, with the caller's `level`."""

    id: str
    owner: str
    content: BaseContent
    level: GrantLevel
    created_at: datetime
    updated_at: datetime


SubjectKind = Literal["user", "group"]


@dataclass(frozen=True, slots=True)
class Subject:
    """Who a grant is for."""

    kind: SubjectKind
    id: str


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant on a knowledge base: to a user or a group (`name`), at a level, by an owner."""

    subject: Subject
    name: str
    level: GrantLevel
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class GrantChange:
    """A change of a grant, kept forever: the old and the new level, None for no grant. `name` is the name at that
    time.
    """

    id: str
    subject: Subject
    name: str
    by: str
    at: datetime
    before: GrantLevel | None
    after: GrantLevel | None


@dataclass(frozen=True, slots=True)
class AccessFacts:
    """The stored facts from which `level_of` decides, unchecked.

    `role` is None for an unknown user, `owner` for an unknown base, `direct` if the user has no grant of their own.
    `groups` are the levels of the user's groups, None if they could not be read.
    """

    user_id: str
    role: str | None
    disabled: bool
    owner: str | None
    direct: str | None
    groups: tuple[str, ...] | None


def level_of(facts: AccessFacts) -> GrantLevel:
    """The level that a user has on a base (docs/reference/access.md). Returns `none` if a fact is unknown, missing or
    invalid.

    The owner has `full`. Otherwise the highest of the user's own grant and the group grants holds. A `none` that names
    the user wins over every group. Example: own `none`, group `full`: `none`.
    """
    if facts.disabled or not _is_word(Role, facts.role) or facts.owner is None or facts.groups is None:
        return GrantLevel.NONE
    if facts.owner == facts.user_id:
        return GrantLevel.FULL
    words = facts.groups if facts.direct is None else (facts.direct, *facts.groups)
    if facts.direct == GrantLevel.NONE or not all(_is_word(GrantLevel, word) for word in words):
        return GrantLevel.NONE
    return max(map(GrantLevel, words), key=_RANK.__getitem__, default=GrantLevel.NONE)


def can_see(facts: AccessFacts, *, visible: bool) -> bool:
    """Whether a user is shown a base's name and description: with a level, or if it is `visible` to members.

    A `none` that names the user hides a visible base too.
    """
    if level_of(facts) is not GrantLevel.NONE:
        return True
    is_known = not facts.disabled and _is_word(Role, facts.role) and facts.groups is not None
    return visible and is_known and facts.owner is not None and facts.direct is None


def _is_word(kind: type[StrEnum], word: str | None) -> bool:
    return word in {member.value for member in kind}


class AuditKind(StrEnum):
    """What an audit lists."""

    GRANTS = "grants"
    """Changes of grants on knowledge bases."""

    MEMBERS = "members"
    """Users who were put into groups or taken out."""

    RESTRICTED_USES = "restricted-uses"
    """Questions to bases with restricted access: that there was one, and how it ended."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry of the audit log: who (`by`) did something to whom (`subject`, or "") and where (`on`, a base or a
    group).

    `before` and `after` are levels of a grant, or `member`, or None; for a question, `after` is its outcome. Names are
    those at that time, if they were stored. A base is named by its id and its owner's name.
    """

    id: str
    at: datetime
    by: str
    by_name: str
    subject: str
    subject_name: str
    on: str
    on_name: str
    before: str | None
    after: str | None


DAILY_LIMIT = "daily_limit"
"""The reason of a refusal because a reader got as many answers in a day as may be."""

LONGEST_QUESTION = 500
"""Characters of a question that are kept."""


@dataclass(frozen=True, slots=True)
class RestrictedUse:
    """A question to a restricted base: who asked, and the outcome.

    `decision` is `answer` or `refuse`; `removed` names the kinds of text that the guard took out. Tokens are the second
    model's. Only the owner sees them, because they grow with the passages. `released` is what the reader got, made from
    the passages in `passage_ids` (`doc_3:1200`: a document and a place in it). `counted`: it counts toward the reader's
    answers of a day; `short`: and toward the short ones.
    """

    id: str
    base_id: str
    user_id: str
    user_name: str
    at: datetime
    question: str
    decision: str
    reason: str
    chunks: int
    removed: tuple[str, ...]
    cached: bool
    model: str
    input_tokens: int
    output_tokens: int
    released: str = ""
    passage_ids: tuple[str, ...] = ()
    counted: bool = False
    short: bool = False


@dataclass(frozen=True, slots=True)
class ToldPassage:
    """What one answer told of one passage: content words (stems) that its reader did not have before, and the sentences
    of the answer that said them.
    """

    passage_id: str
    words: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReaderHistory:
    """What a reader got of a base: answers, and short ones, since a moment; content words by passage since ever."""

    answers: int = 0
    short: int = 0
    told: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What one answer told of one passage, to whom and when."""

    use_id: str
    user_id: str
    user_name: str
    at: datetime
    question: str
    told: ToldPassage


@dataclass(frozen=True, slots=True)
class RestrictedReader:
    """What a reader asked of a base since a moment, for the alerts of its owner.

    `limited`: refusals because a bound of the day was reached. `covered` and `named`: answers of which sentences were
    cut because they told too much with earlier ones, or held a name of the base.
    """

    user_id: str
    user_name: str
    answers: int
    short: int
    limited: int
    covered: int
    named: int
    last_at: datetime
