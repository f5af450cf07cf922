"""The most tokens that a provider takes, as its refusals said, until when that is believed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "provider_limits",
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("until", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("account", "model", name=op.f("pk_provider_limits")),
    )
