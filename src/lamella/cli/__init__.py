"""The terminal: `lamella serve | chat | replay`."""

from lamella.cli.main import main

__all__ = ["main"]
