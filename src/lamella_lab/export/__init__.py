"""What happened in a conversation, carried away as a trace: with what was said, or without (docs/traces.md)."""
