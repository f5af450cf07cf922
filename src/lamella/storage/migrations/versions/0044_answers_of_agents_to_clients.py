"""Where the answers are that clients got of agents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "client_answers",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String()),
        sa.Column("run_id", sa.String()),
        sa.Column("at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("fk_client_answers_agent_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_client_answers_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("owner", "agent_id", "key", name=op.f("pk_client_answers")),
    )
    op.create_index("ix_client_answers_conversation_id", "client_answers", ["conversation_id"])
