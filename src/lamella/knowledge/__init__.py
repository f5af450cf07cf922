"""Uploaded files as text. Kept empty: the reading child starts with this package and must stay light."""
