"""Commands that are run in this process."""

from __future__ import annotations

from shardmark.cli.arguments import main


def refused(capsys, *arguments):
    """The sentence of a command that ends with status 2."""
    try:
        status = main([*map(str, arguments)])
    except SystemExit as exit_of_argparse:
        status = exit_of_argparse.code
    assert status == 2
    return capsys.readouterr().err
