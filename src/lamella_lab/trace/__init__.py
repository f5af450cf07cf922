"""Traces: a conversation with everything needed to run it again without a model, as JSON."""
