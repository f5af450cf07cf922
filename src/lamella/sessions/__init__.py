"""What happens to a conversation's past after a turn: compaction, pruning, recall (hop 12)."""
