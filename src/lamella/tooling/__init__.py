"""Tools as a loop sees them: the protocol, the registry, the check of arguments, and the runner."""
