"""Which earlier summaries the window of a session holds, and how much of each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Sessions that are there keep the windows that they have: for them it stays unsaid."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("sessions", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("carries", sa.Text(), nullable=True), insert_after="inherits")
        # An empty default would come back in brackets.
        batch_op.alter_column("why", existing_type=sa.Text(), existing_nullable=False, server_default="")
