"""Finding again what was said: the index that follows the turns, search, and the model's two tools (X-RECALL)."""
