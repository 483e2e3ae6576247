"""TODO shardmark."""
