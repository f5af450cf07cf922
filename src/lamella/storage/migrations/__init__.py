"""The history of the tables, as Alembic revisions; loaded only when a database is not up to date."""
