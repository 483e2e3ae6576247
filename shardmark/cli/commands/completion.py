"""The command ``completion``, and what a shell offers at TAB: commands, options, ids of instances, names of methods.

argcomplete supports bash, zsh and fish, and asks this program for names; shtab supports neither fish nor names.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from shardmark.cli.options import Answer, Command
from shardmark.cli.output import say
from shardmark.instances import catalog

VARIABLE = "_ARGCOMPLETE"  # set by the shell when it asks for completions


def completion_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the shells."""
    sub.add_argument("shell", choices=("bash", "zsh", "fish"))


def run_completion(options: argparse.Namespace) -> Answer:
    """Print a script for shell completion of commands, options and names.

    For bash, put `eval "$(shardmark completion bash)"` into ~/.bashrc; for zsh, the same with zsh into ~/.zshrc, after
    compinit; for fish, write the script to ~/.config/fish/completions/shardmark.fish.
    """
    from argcomplete import shellcode

    script = shellcode(["shardmark"], shell=options.shell)
    if options.json:
        return 0, {"shell": options.shell, "script": script}
    say(f"{script}\n")
    return 0, None


def complete(top: argparse.ArgumentParser) -> None:
    """Answer the shell, and end the process."""
    from argcomplete import autocomplete

    for action in actions(top):
        if action.dest in NAMES and action.choices is None:
            action.completer = NAMES[action.dest]  # type: ignore[attr-defined]
    autocomplete(top, always_complete_options="long")


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Return the options and arguments of a parser, and of all its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for member in action.choices.values():
                yield from actions(member)


def ids(prefix: str, **_: Any) -> list[str]:
    """Return files, and ids of the catalog."""
    from argcomplete.completers import FilesCompleter

    return [*FilesCompleter()(prefix), *(entry.id for entry in catalog.entries())]


def methods(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return names of solvers and bounds, of the track of the instance if that is known."""
    from shardmark.harness.campaign.discover import discover

    named = getattr(parsed_args, "instance", None)
    found = {entry.track for entry in catalog.entries() if entry.id == named}
    return sorted({info.name for info in discover() if not found or info.track in found})


def suites(**_: Any) -> list[str]:
    """Return names of suites."""
    return list(catalog.suites())


#: Completer of the value of an option or argument, by its destination.
NAMES = {"instance": ids, "solver": methods, "method": methods, "suite": suites}

COMMANDS = (Command("completion", run_completion, completion_arguments, "bash"),)
