"""The laws of the window over generated conversations, and the letters and bytes of small ones."""
