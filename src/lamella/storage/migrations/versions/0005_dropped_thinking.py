"""How much earlier thinking a provider left out of a request."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("requests", recreate="always") as batch_op:
        batch_op.add_column(
            sa.Column("dropped_thinking", sa.Integer(), server_default="0", nullable=False),
            insert_after="provider_request_id",
        )
