"""OpenAI's embeddings: vectors of texts that share words point the same way."""
