"""What providers have cached, so that a restart forgets none of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "cache_entries",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("ttl", sa.String(), nullable=False),
        sa.Column("used_at", sa.String(), nullable=False),
        sa.Column("ends_at", sa.String(), nullable=False),
        sa.Column("exact", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_cache_entries")),
    )
    op.create_index("ix_cache_entries_ends_at", "cache_entries", ["ends_at"], unique=False)
