"""What happens to a conversation's history after a turn: compaction, pruning, recall."""
