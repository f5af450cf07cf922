"""Options of keys: what is done for the clients that have them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("api_keys", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("options", sa.Text(), nullable=False, server_default="{}"))
