"""Recall: the index of earlier messages, its search, and the model's two tools."""
