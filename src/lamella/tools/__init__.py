"""The tools that ship."""
