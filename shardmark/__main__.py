"""``python -m shardmark`` is ``shardmark``."""

import os
import sys


def main() -> int:
    """Run the command line; Ctrl-C ends it cleanly even while it is being imported."""
    # No command multiplies matrices, but each thread of NumPy's library spins for 70 ms of CPU time once it is loaded.
    # A run gets its own number.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from shardmark.cli import arguments
    except KeyboardInterrupt:
        print("shardmark: interrupted", file=sys.stderr)
        return 130
    return arguments.main()


if __name__ == "__main__":
    sys.exit(main())
