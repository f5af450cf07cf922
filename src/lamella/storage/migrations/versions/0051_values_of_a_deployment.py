"""What all processes of a database share: its id, and what is made at random once."""

from __future__ import annotations

from secrets import token_bytes

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    made = op.create_table(
        "deployment",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_deployment")),
    )
    op.bulk_insert(made, [{"name": "id", "data": token_bytes(16)}])
