"""What `shardmark submit` does with a solver: its checks, where it would stand, and the branch that proposes it."""
