"""Restricted access: what may be said of documents that the reader may use and not read."""
