"""Where a session ended, and how its summary compares with what it stands for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("sessions", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("ends_with", sa.String(), nullable=True), insert_after="closed_by")
        # Reflection puts an empty default into brackets.
        batch_op.alter_column("why", existing_type=sa.Text(), existing_nullable=False, server_default="")
        batch_op.add_column(
            sa.Column("summary_check", sa.Text(), server_default="{}", nullable=False), insert_after="summary_tokens"
        )
