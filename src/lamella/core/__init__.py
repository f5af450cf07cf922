"""The nouns of Lamella and the ports between its layers; imports nothing of the rest of the package."""
