"""Finding text again: terms, the lexical embedder, ranking, snippets. Pure."""
