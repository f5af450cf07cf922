"""Tests of `lamella.storage`. What uses the `store` fixture is the contract: it runs on every database there is."""
