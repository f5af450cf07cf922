"""Several answers to a message, and turns that follow another answer than the newest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_USAGE = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")


def upgrade() -> None:
    """Apply this revision."""
    _runs()
    _turns()
    _conversations()
    _labels()


def _runs() -> None:
    """Every turn had one run."""
    op.create_table(
        "runs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("finished_at", sa.String(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        *(sa.Column(f"{name}_tokens", sa.Integer(), server_default="0", nullable=False) for name in _USAGE),
        sa.Column("cost", sa.Float(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_runs_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    op.create_index("uq_runs_turn_id_number", "runs", ["turn_id", "number"], unique=True)
    same = ", ".join(
        ["owner", "model", "status", "finished_at", "error", "cost", *(f"{name}_tokens" for name in _USAGE)]
    )
    op.execute(f"INSERT INTO runs (id, turn_id, number, {same}) SELECT run_id, id, 0, {same} FROM turns")


def _turns() -> None:
    op.add_column("turns", sa.Column("parent_run_id", sa.String(), nullable=True))
    op.execute(
        "UPDATE turns SET parent_run_id = (SELECT parents.run_id FROM turns parents WHERE parents.id = turns.parent_id)"
    )


def _conversations() -> None:
    op.add_column("conversations", sa.Column("head_run_id", sa.String(), nullable=True))
    op.add_column("conversations", sa.Column("forked", sa.Boolean(), server_default=sa.text("0"), nullable=False))
    op.execute("UPDATE conversations SET head_run_id = (SELECT run_id FROM turns WHERE turns.id = conversations.head)")
    op.execute(
        "UPDATE conversations SET forked = 1 WHERE id IN (SELECT conversation_id FROM turns "
        "GROUP BY conversation_id, parent_id HAVING COUNT(*) > 1)"
    )


def _labels() -> None:
    """Messages and requests get the run that made them; then turns need it no more."""
    op.add_column("messages", sa.Column("run_id", sa.String(), nullable=True))
    op.execute(
        "UPDATE messages SET run_id = (SELECT turns.run_id FROM turns WHERE turns.id = messages.turn_id) WHERE seq > 0"
    )
    op.add_column("requests", sa.Column("run_id", sa.String(), nullable=True))
    op.execute(
        "UPDATE requests SET run_id = (SELECT turns.run_id FROM turns WHERE turns.id = requests.turn_id) "
        "WHERE purpose <> 'summary'"
    )
    op.add_column("decisions", sa.Column("turn_id", sa.String(), nullable=True))
    op.add_column("decisions", sa.Column("run_id", sa.String(), nullable=True))
    # Tables that exist are made anew, so that their statements read as those of a new database.
    with op.batch_alter_table("turns", recreate="always") as batch_op:
        batch_op.drop_column("run_id")
        batch_op.drop_column("model")
    for table in ("conversations", "requests", "decisions"):
        with op.batch_alter_table(table, recreate="always"):
            pass
    with op.batch_alter_table("messages", recreate="always") as batch_op:
        # An empty default would come back in brackets.
        batch_op.alter_column("made_after", existing_type=sa.String(), server_default="", existing_nullable=False)
        batch_op.alter_column("reminder", existing_type=sa.Text(), server_default="", existing_nullable=False)
