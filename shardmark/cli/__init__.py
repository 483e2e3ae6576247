"""TODO shardmark/cli."""
