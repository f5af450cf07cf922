"""Lines: what clients sent through the gateway."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

_FIGURES = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("conversations", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("observed", sa.Boolean(), nullable=False, server_default=sa.text("0")))
    op.create_table(
        "lines",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("client", sa.String(), nullable=False),
        sa.Column("session", sa.String()),
        sa.Column("dialect", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("opening", sa.Integer(), nullable=False),
        sa.Column("keys", sa.Text(), nullable=False),
        sa.Column("tip", sa.String(), nullable=False),
        sa.Column("system", sa.String(), nullable=False),
        sa.Column("answer", sa.String(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("begun_at", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("breaks", sa.Integer(), nullable=False),
        sa.Column("lost", sa.Integer(), nullable=False),
        sa.Column("lost_cost", sa.Float(), nullable=False),
        sa.Column("saved", sa.Float(), nullable=False),
        *(sa.Column(f"{name}_tokens", sa.Integer(), nullable=False, server_default="0") for name in _FIGURES),
        sa.Column("usage_estimated", sa.Boolean(), nullable=False, server_default=sa.text("0")),
        sa.Column("input_estimated", sa.Boolean(), nullable=False, server_default=sa.text("0")),
        sa.Column("cost", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["id"], ["conversations.id"], name=op.f("fk_lines_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lines")),
    )
    for name in ("tip", "session", "at"):
        op.create_index(f"ix_lines_owner_{name}", "lines", ["owner", name])
