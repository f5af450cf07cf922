"""Background work: who does jobs, under which lease, and when again (SPEC X-LEASE)."""
