"""What documents that tools found were made from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Of what is there already nobody knows it."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("found_documents", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("made_from", sa.Text(), nullable=False, server_default="[]"))
