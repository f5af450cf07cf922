"""The HTTP server: routes, one skin per protocol, over `app`."""
