"""What may be said of protected text: a deterministic check of every word that leaves it."""
