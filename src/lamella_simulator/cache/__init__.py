"""Prompt caches: the ledger of live entries, and one module per family of vendor rules."""
