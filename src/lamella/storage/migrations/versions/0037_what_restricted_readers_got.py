"""What restricted readers got of which passages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

USES, TOLD = "restricted_uses", "restricted_told"


def upgrade() -> None:
    """Apply this revision. What was answered before is not known."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table(USES, recreate="always") as batch_op:
        batch_op.add_column(sa.Column("released", sa.Text(), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("passage_ids", sa.Text(), nullable=False, server_default="[]"))
        batch_op.add_column(sa.Column("counted", sa.Boolean(), nullable=False, server_default=sa.false()))
        batch_op.add_column(sa.Column("short", sa.Boolean(), nullable=False, server_default=sa.false()))
        batch_op.create_index("ix_restricted_uses_knowledge_base_id_user_id_at", ["knowledge_base_id", "user_id", "at"])
    op.create_table(
        TOLD,
        sa.Column("use_id", sa.String(), sa.ForeignKey("restricted_uses.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("passage_id", sa.String(), primary_key=True),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column(
            "knowledge_base_id", sa.String(), sa.ForeignKey("knowledge_bases.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("sentences", sa.Text(), nullable=False),
    )
    named = ["knowledge_base_id", "user_id", "passage_id"]
    op.create_index("ix_restricted_told_knowledge_base_id_user_id_passage_id", TOLD, named)
