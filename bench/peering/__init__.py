"""The same conversation through other agent libraries: one driver a library, each run in an environment of its own."""
