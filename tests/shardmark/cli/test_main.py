"""The entry point."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, shardmark.__main__ as entry

class Interrupt:
    def find_spec(self, name, *_):
        if name == "shardmark.cli.arguments":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
sys.exit(entry.main())
"""


def test_an_interrupt_while_it_is_imported_is_no_traceback():
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "shardmark: interrupted\n")
