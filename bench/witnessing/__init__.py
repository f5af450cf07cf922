"""A real engine beside the simulator: the same prompts through both, and what each has read from its cache."""
