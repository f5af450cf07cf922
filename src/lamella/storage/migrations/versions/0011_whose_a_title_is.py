"""Whose the title of a conversation is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. What is titled already keeps its title, whoever wrote it."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("conversations", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("titled_by", sa.String(), server_default="user", nullable=False))
    op.execute("UPDATE conversations SET titled_by = 'nobody' WHERE title = ''")
