"""Adapters: a `Prompt` to a provider's wire, its stream to deltas, its errors to ours."""
