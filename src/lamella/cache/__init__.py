"""The cache planner: wire blocks and a ledger in, markers and a prediction out; pure (DESIGN "Cache")."""
