"""Which turn the summary of a session ends with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision.

    Of an open session and of a compacted one nothing says where its summary ends: each gets another at its next end.
    """
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("sessions", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("summary_ends_with", sa.String(), nullable=True), insert_after="summary_tokens")
        # Reflection puts an empty default into brackets.
        batch_op.alter_column("why", existing_type=sa.Text(), existing_nullable=False, server_default="")
    op.execute(
        "UPDATE sessions SET summary_ends_with = ends_with "
        "WHERE summary IS NOT NULL AND closed_at IS NOT NULL AND closed_by <> 'compaction'"
    )
