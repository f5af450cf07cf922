"""What a client of OpenAI's API uploads a file for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("files", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("purpose", sa.String(), nullable=False, server_default="user_data"))
