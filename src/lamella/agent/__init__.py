"""The loop over a model, a window, tools and hooks: it gives packets, and needs neither store nor server."""
