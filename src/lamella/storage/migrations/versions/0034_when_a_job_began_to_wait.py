"""When a job began to wait: a clock that was set back since says nothing of how long it has waited."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Of what waits already it is not known."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("jobs", recreate="always") as batch_op:
        batch_op.add_column(
            sa.Column("asked_at", sa.String(), server_default="", nullable=False), insert_after="due_at"
        )
        # An empty default would come back in brackets.
        batch_op.alter_column("asked_at", existing_type=sa.String(), server_default="", existing_nullable=False)
