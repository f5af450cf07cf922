"""Slash commands: handled before any model call, free of model tokens, kept out of the model's context."""
