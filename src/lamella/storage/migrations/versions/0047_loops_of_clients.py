"""Loops of clients: what their lines were alarmed for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("lines", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("alarm", sa.Text()))
