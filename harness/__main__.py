"""``python -m harness`` is ``shardmark``."""

import sys

from harness.cli import main

sys.exit(main())
