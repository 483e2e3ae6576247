"""``python -m shardmark`` is ``shardmark``."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C during its import ends it as Ctrl-C does later."""
    try:
        from shardmark.cli import arguments
    except KeyboardInterrupt:
        print("shardmark: interrupted", file=sys.stderr)
        return 130
    return arguments.main()


if __name__ == "__main__":
    sys.exit(main())
