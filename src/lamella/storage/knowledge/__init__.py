"""What is searched: documents on shelves, their passages and vectors."""
