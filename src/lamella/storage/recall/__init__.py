"""What was said, found again: passages of conversations and their vectors."""
