"""Conversations as rows: sessions, turns and branches, requests, and what waits."""
