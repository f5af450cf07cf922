"""Between rows of the database and the records of the core, by noun."""
