"""What the upstream of a client's request charges, if it has prices of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # SQLite's table is made anew, so that its statement reads as that of a new database.
    anew = op.get_context().dialect.name == "sqlite"
    with op.batch_alter_table("requests", recreate="always" if anew else "auto") as batch_op:
        batch_op.add_column(sa.Column("price", sa.Text()))
