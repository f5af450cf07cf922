"""What stood around requests beside turns too: around those for summaries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

_COLUMNS = "owner, conversation_id, at, digest, data"


def upgrade() -> None:
    """Apply this revision. A row may begin with a request, so it is no longer one of a turn."""
    op.drop_index("ix_pinned_conversation_id_at", "pinned")
    op.rename_table("pinned", "pinned_to_turns")
    op.create_table(
        "pinned",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_pinned_conversation_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pinned")),
    )
    op.execute(f"INSERT INTO pinned (id, {_COLUMNS}) SELECT turn_id, {_COLUMNS} FROM pinned_to_turns")
    op.drop_table("pinned_to_turns")
    op.create_index("ix_pinned_conversation_id_at", "pinned", ["conversation_id", "at"])
