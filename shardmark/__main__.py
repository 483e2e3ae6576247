"""``python -m shardmark`` is ``shardmark``."""

import sys


def main() -> int:
    """The command line; Ctrl-C while it is still being imported ends it as one later does."""
    try:
        from shardmark.cli import arguments
    except KeyboardInterrupt:
        print("shardmark: interrupted", file=sys.stderr)
        return 130
    return arguments.main()


if __name__ == "__main__":
    sys.exit(main())
