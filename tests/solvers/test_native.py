"""The compiled core's import: it fails with the fix, or works."""

from __future__ import annotations

import subprocess
import sys


def test_a_missing_core_is_told_with_its_fix() -> None:
    script = "import sys; sys.modules['shardmark.solvers._core'] = None; import shardmark.solvers.native"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: cannot import the compiled core shardmark.solvers._core (")
    assert last.endswith("): run `make setup` or `pip install -e .`")
