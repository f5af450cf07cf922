"""MCP servers: configuration, connections, and the tools that models are offered."""
