"""Tools that a caller brings along with a message."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("messages", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("tools", sa.Text()))
        for name in ("made_after", "reminder"):  # else the empty default comes back in brackets
            batch_op.alter_column(name, server_default="")
