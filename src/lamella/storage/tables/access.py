"""The tables of callers: users, groups, keys; knowledge bases, and who may read them."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, LargeBinary, String, Table, Text, false

from lamella.core.access import DescribedBy, FormField, GrantLevel, KeyOptions, RestrictedLevel, Role, Scope
from lamella.storage.columns import Json, OneOf, UtcMoment
from lamella.storage.tables.parts import metadata, owner, row_id

users = Table(
    "users",
    metadata,
    row_id(),
    Column("name", String, nullable=False),
    Column("folded", String, nullable=False),
    Column("role", OneOf(Role), nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("created_at", UtcMoment, nullable=False),
    Index("uq_users_folded", "folded", unique=True),
)
"""The owners of all other rows. `folded` is the name without its case: no two users differ in that alone."""

set_ups = Table(
    "set_ups",
    metadata,
    owner(),
    Column("name", String, primary_key=True),
    Column("at", UtcMoment, nullable=False),
)
"""What was set up once and for all, by whom: `accounts` from when on everybody needs a key."""

deployment = Table(
    "deployment",
    metadata,
    Column("name", String, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
"""Random values that are made once and shared by all processes of a database. `id` names the database, also a copy of
it; `cache_salt` hides names in cache keys; `first_run_token` makes the first admin. They are the server's."""

groups = Table(
    "groups",
    metadata,
    row_id(),
    Column("name", String, nullable=False),
    Column("folded", String, nullable=False),
    Column("created_at", UtcMoment, nullable=False),
    Index("uq_groups_folded", "folded", unique=True),
)
"""Users who are granted access together; `folded` as in `users`. They are the server's, and its admins keep them."""

group_members = Table(
    "group_members",
    metadata,
    Column("group_id", String, ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True),
    Column("owner", String, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True),
)
"""Who is in a group: `owner` is the member."""

api_keys = Table(
    "api_keys",
    metadata,
    row_id(),
    Column("owner", String, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("prefix", String, nullable=False, index=True),
    Column("digest", LargeBinary, nullable=False),
    Column("scopes", Json(frozenset[Scope]), nullable=False),
    Column("issued_by", String, nullable=False),
    Column("parent_id", String, ForeignKey("api_keys.id", ondelete="CASCADE"), index=True),
    Column("created_at", UtcMoment, nullable=False),
    Column("expires_at", UtcMoment),
    Column("last_used_at", UtcMoment),
    Column("revoked_at", UtcMoment),
    Column("options", Json(KeyOptions), nullable=False, server_default="{}"),
    Index("ix_api_keys_owner_id", "owner", "id"),
)
"""`digest` is the SHA-256 of the key, which is kept nowhere; `prefix` finds it. A login of a page is a key whose
`parent_id` is the key that it was made with. `options` is a JSON object of `core.access.KeyOptions`."""

knowledge_bases = Table(
    "knowledge_bases",
    metadata,
    row_id(),
    owner(),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("visible", Boolean, nullable=False),
    Column("created_at", UtcMoment, nullable=False),
    Column("updated_at", UtcMoment, nullable=False),
    Column("hint", Text, nullable=False, server_default=""),
    Column("summary", Text, nullable=False, server_default=""),
    Column("topics", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    Column("described_by", OneOf(DescribedBy, Text), nullable=False, server_default="nobody"),
    Column("described_from", Text, nullable=False, server_default=""),
    Column("keywords", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    Column("confirmed_terms", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    Column("allowed_terms", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    Column("restricted_level", OneOf(RestrictedLevel, Text), nullable=False, server_default="summary"),
    Column("contact", Text, nullable=False, server_default=""),
    Column("form", Json(tuple[FormField, ...]), nullable=False, server_default="[]"),
    Index("ix_knowledge_bases_owner_id", "owner", "id"),
)
"""`described_by` is whose words summary and topics are; `described_from` the fingerprint of the documents that a model
wrote them from."""

grants = Table(
    "grants",
    metadata,
    Column("knowledge_base_id", String, ForeignKey("knowledge_bases.id", ondelete="CASCADE"), primary_key=True),
    Column("subject_id", String, primary_key=True, index=True),
    Column("subject_kind", String, nullable=False),
    owner(),
    Column("level", OneOf(GrantLevel), nullable=False),
    Column("by", String, nullable=False),
    Column("at", UtcMoment, nullable=False),
)
"""What a user or a group (`subject_kind`) may read of a base; `owner` is the base's."""

grant_changes = Table(
    "grant_changes",
    metadata,
    row_id(),
    owner(),
    Column("knowledge_base_id", String, nullable=False),
    Column("subject_id", String, nullable=False),
    Column("subject_kind", String, nullable=False),
    Column("subject_name", Text, nullable=False),
    Column("by", String, nullable=False),
    Column("at", UtcMoment, nullable=False),
    Column("before", OneOf(GrantLevel)),
    Column("after", OneOf(GrantLevel)),
    Index("ix_grant_changes_knowledge_base_id_id", "knowledge_base_id", "id"),
)
"""Every change of a grant; the rows outlive the base. `before` and `after` are levels, null for no grant."""

member_changes = Table(
    "member_changes",
    metadata,
    row_id(),
    owner(),
    Column("user_name", Text, nullable=False),
    Column("group_id", String, nullable=False),
    Column("group_name", Text, nullable=False),
    Column("by", String, nullable=False),
    Column("at", UtcMoment, nullable=False),
    Column("before", String),
    Column("after", String),
)
"""Every change of who is in which group: `owner` is the member. The rows outlive group and user."""

restricted_uses = Table(
    "restricted_uses",
    metadata,
    row_id(),
    owner(),
    Column("knowledge_base_id", String, ForeignKey("knowledge_bases.id", ondelete="CASCADE"), nullable=False),
    Column("user_id", String, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("at", UtcMoment, nullable=False),
    Column("question", Text, nullable=False),
    Column("decision", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("removed", Json(tuple[str, ...]), nullable=False),
    Column("cached", Boolean, nullable=False),
    Column("model", String, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("released", Text, nullable=False, server_default=""),
    Column("passage_ids", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    Column("counted", Boolean, nullable=False, server_default=false()),
    Column("short", Boolean, nullable=False, server_default=false()),
    Index("ix_restricted_uses_knowledge_base_id_id", "knowledge_base_id", "id"),
    Index("ix_restricted_uses_knowledge_base_id_user_id_at", "knowledge_base_id", "user_id", "at"),
)
"""Questions to bases with restricted access; `owner` is the base's. `removed` is a JSON list of kinds."""

restricted_told = Table(
    "restricted_told",
    metadata,
    Column("use_id", String, ForeignKey("restricted_uses.id", ondelete="CASCADE"), primary_key=True),
    Column("passage_id", String, primary_key=True),
    owner(),
    Column("knowledge_base_id", String, ForeignKey("knowledge_bases.id", ondelete="CASCADE"), nullable=False),
    Column("user_id", String, nullable=False),
    Column("words", Json(tuple[str, ...]), nullable=False),
    Column("sentences", Json(tuple[str, ...]), nullable=False),
    Index("ix_restricted_told_knowledge_base_id_user_id_passage_id", "knowledge_base_id", "user_id", "passage_id"),
)
"""What an answer told of a passage that its reader did not have before: content words, and the sentences with them."""
