"""``python -m harness`` is ``shardmark``."""

import sys

from shardmark.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
