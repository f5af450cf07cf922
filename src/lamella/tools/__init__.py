"""What a model can call: the protocol, the runner, and the tools that ship."""
