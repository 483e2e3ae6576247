"""Command line of the cross-check: ``python -m tests.fuzz.crosscheck``, see ``tests/support/crosscheck``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# As pytest does for tests; and a method has one core.
SUPPORT = Path(__file__).parents[1] / "support"
sys.path[:0] = [str(SUPPORT), str(SUPPORT / "oracles")]
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

if __name__ == "__main__":
    from crosscheck.command import main

    sys.exit(main())
