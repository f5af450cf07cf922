"""What `load.py` is made of: the ways a stream can take, and LiteLLM's proxy to compare with."""
