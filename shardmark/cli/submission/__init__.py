"""The work of `shardmark submit`: the checks of a solver, its standing, and the branch that proposes it."""
