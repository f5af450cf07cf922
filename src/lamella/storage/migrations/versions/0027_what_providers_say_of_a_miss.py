"""The provider's own name of an answer, and what it says of a cache that was missed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("requests", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("answer_id", sa.String(), nullable=True), insert_after="dropped_thinking")
        batch_op.add_column(sa.Column("diagnosis", sa.Text(), nullable=True), insert_after="answer_id")
