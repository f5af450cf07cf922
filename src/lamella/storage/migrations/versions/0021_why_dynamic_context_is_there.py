"""Why the blocks of a message's dynamic context are there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("messages", recreate="always") as batch_op:
        batch_op.add_column(
            sa.Column("dynamic_whys", sa.Text(), nullable=False, server_default="[]"), insert_after="dynamic"
        )
        # An empty default would come back in brackets.
        batch_op.alter_column("made_after", existing_type=sa.String(), server_default="", existing_nullable=False)
        batch_op.alter_column("reminder", existing_type=sa.Text(), server_default="", existing_nullable=False)
