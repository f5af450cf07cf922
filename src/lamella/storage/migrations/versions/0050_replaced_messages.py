"""What stands upstream in the place of clients' messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("lines", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("compactions", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("context_saved", sa.Float(), nullable=False, server_default="0"))
    op.create_table(
        "replacements",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("conversation_id", sa.String()),
        sa.Column("dialect", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("made_at", sa.String(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("numbers", sa.Text(), nullable=False),
        sa.Column("answer", sa.String(), nullable=False),
        sa.Column("texts", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("check", sa.Text(), nullable=False),
        sa.Column("carries", sa.Text(), nullable=False),
        sa.Column("skipped", sa.Text(), nullable=False),
        sa.Column("request_id", sa.String()),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_replacements_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replacements")),
    )
    op.create_index("ix_replacements_conversation_id", "replacements", ["conversation_id"])
    op.create_index(
        "uq_replacements_owner_dialect_key_kind", "replacements", ["owner", "dialect", "key", "kind"], unique=True
    )
