"""Exports a conversation as a trace, with its content or without (docs/reference/traces.md)."""
