"""The terminal: `lamella serve | chat | inspect | replay`."""

from lamella.cli.main import main

__all__ = ["main"]
