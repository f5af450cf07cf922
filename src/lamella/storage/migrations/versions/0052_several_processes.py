"""Several processes on one database: who serves it, who holds which conversation, and what they ask of each other."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # SQLite's table is made anew, so that its statement reads as that of a new database.
    anew = op.get_context().dialect.name == "sqlite"
    with op.batch_alter_table("jobs", recreate="always" if anew else "auto") as batch_op:
        batch_op.add_column(sa.Column("process_id", sa.String()))
        if anew:  # else its default is written in brackets
            batch_op.alter_column("asked_at", existing_type=sa.String(), server_default="")
    op.create_table(
        "processes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("started_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_processes")),
    )
    op.create_table(
        "process_beats",
        sa.Column("process_id", sa.String(), nullable=False),
        sa.Column("beat", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["process_id"], ["processes.id"], name=op.f("fk_process_beats_process_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("process_id", name=op.f("pk_process_beats")),
    )
    op.create_table(
        "held_conversations",
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("process_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_held_conversations_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("conversation_id", name=op.f("pk_held_conversations")),
    )
    op.create_table(
        "signals",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("process_id", sa.String(), nullable=False),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_signals_conversation_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signals")),
    )
    op.create_index("ix_signals_process_id", "signals", ["process_id"])
    op.create_index("ix_signals_conversation_id", "signals", ["conversation_id"])
