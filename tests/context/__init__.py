"""The laws of DESIGN 3 over generated conversations, and the letters and bytes of small ones."""
