"""MCP servers: how they are configured, kept connected, and what of theirs a model is offered."""
