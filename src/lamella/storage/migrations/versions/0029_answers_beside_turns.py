"""What was answered to requests beside turns: for summaries, titles and digests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Answers of before are not known."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("requests", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("said", sa.Text(), nullable=True), insert_after="diagnosis")
