"""Published campaigns, a folder each: data only, read by `shardmark.harness.editions`."""
