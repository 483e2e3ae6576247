"""Cross-check of all methods of a track against each other, on generated instances of 8 to 60 nodes.

``tracks``     the tracks, and what each needs
``draws``      a module per track: the instance of an index, its options in equal shares
``methods``    the methods that run: bounds, exact methods, the best heuristics, and parts of bounds on their own
``claims``     what a method claimed on an instance, its solutions judged
``reasons``    which reasons to decline claim that nothing fits
``check``      contradictions between claims
``campaign``   runs in children that can be killed, results as JSON lines
``report``     tables of counts
``plant``      false claims on purpose: which does the cross-check find, and how soon?

Start it by ``make crosscheck`` or ``python -m tests.fuzz.crosscheck``.
"""
