"""Stored responses, and the pairs that their owners give conversations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("conversations", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("metadata", sa.Text(), nullable=False, server_default="{}"))
    op.create_table(
        "responses",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String()),
        sa.Column("account", sa.String()),
        sa.Column("fields", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("begins", sa.Boolean(), nullable=False, server_default=sa.text("0")),
        sa.Column("deleted", sa.Boolean(), nullable=False, server_default=sa.text("0")),
        sa.Column("at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_responses_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", "owner", name=op.f("pk_responses")),
    )
    op.create_index("ix_responses_turn_id", "responses", ["turn_id"])
    op.create_index("ix_responses_at", "responses", ["at"])
