"""``python -m shardmark`` is ``shardmark``."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C ends it cleanly even while it is being imported."""
    try:
        from shardmark.cli import arguments
    except KeyboardInterrupt:
        print("shardmark: interrupted", file=sys.stderr)
        return 130
    return arguments.main()


if __name__ == "__main__":
    sys.exit(main())
