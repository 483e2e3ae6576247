"""TODO shardmark/cli/templates."""
