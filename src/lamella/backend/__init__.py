"""What builds request-scoped text: the chat and all below it receive finished strings (SPEC W6)."""
