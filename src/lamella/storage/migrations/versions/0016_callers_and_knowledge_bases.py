"""Users, groups, keys; knowledge bases, the grants on them, and every change of one."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. What is stored belongs to the local user, who is an admin."""
    users = op.create_table(
        "users",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("folded", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
    )
    op.create_index("uq_users_folded", "users", ["folded"], unique=True)
    op.create_table(
        "set_ups",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_set_ups")),
    )
    op.create_table(
        "groups",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("folded", sa.String(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_groups")),
    )
    op.create_index("uq_groups_folded", "groups", ["folded"], unique=True)
    op.create_table(
        "group_members",
        sa.Column("group_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.id"], name=op.f("fk_group_members_group_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["owner"], ["users.id"], name=op.f("fk_group_members_owner"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("group_id", "owner", name=op.f("pk_group_members")),
    )
    op.create_index(op.f("ix_group_members_owner"), "group_members", ["owner"], unique=False)
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("issued_by", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("expires_at", sa.String(), nullable=True),
        sa.Column("last_used_at", sa.String(), nullable=True),
        sa.Column("revoked_at", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["owner"], ["users.id"], name=op.f("fk_api_keys_owner"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["parent_id"], ["api_keys.id"], name=op.f("fk_api_keys_parent_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_index("ix_api_keys_owner_id", "api_keys", ["owner", "id"], unique=False)
    op.create_index(op.f("ix_api_keys_parent_id"), "api_keys", ["parent_id"], unique=False)
    op.create_index(op.f("ix_api_keys_prefix"), "api_keys", ["prefix"], unique=False)
    op.create_table(
        "knowledge_bases",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("visible", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("updated_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_knowledge_bases")),
    )
    op.create_index("ix_knowledge_bases_owner_id", "knowledge_bases", ["owner", "id"], unique=False)
    op.create_table(
        "grants",
        sa.Column("knowledge_base_id", sa.String(), nullable=False),
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("subject_kind", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("level", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["knowledge_base_id"], ["knowledge_bases.id"], name=op.f("fk_grants_knowledge_base_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("knowledge_base_id", "subject_id", name=op.f("pk_grants")),
    )
    op.create_index(op.f("ix_grants_subject_id"), "grants", ["subject_id"], unique=False)
    op.create_table(
        "grant_changes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("knowledge_base_id", sa.String(), nullable=False),
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("subject_kind", sa.String(), nullable=False),
        sa.Column("subject_name", sa.Text(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.Column("before", sa.String(), nullable=True),
        sa.Column("after", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grant_changes")),
    )
    op.create_index("ix_grant_changes_knowledge_base_id_id", "grant_changes", ["knowledge_base_id", "id"], unique=False)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    local = {"id": "user_local", "name": "Local user", "folded": "local user", "role": "admin"}
    op.bulk_insert(users, [{**local, "disabled": False, "created_at": now}])
