"""Who was put into which group, or taken out, by whom and when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "member_changes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("group_id", sa.String(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.Column("before", sa.String(), nullable=True),
        sa.Column("after", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_member_changes")),
    )
