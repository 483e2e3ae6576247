"""Which branches of a program are planned, which loops are unrolled, and what the user is told of both."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shardmark.instances.catalog import near_miss
from shardmark.instances.errors import InputError
from shardmark.instances.models.model import Model

#: Operators of all rounds of a loop, at most, and bytes of their names; a larger loop stays one operator.
LARGEST_LOOP, LARGEST_NAMES = 20_000, 1 << 26

_MOST_NAMES = 5  # of loops and branches in a sentence


class Choices:
    """Choices for a program: ``branches`` has the user's, by name or pattern of names."""

    def __init__(self, source: str, branches: Mapping[str, str]) -> None:
        self._source, self._branches = source, branches
        self._met: dict[str, None] = {}  # names of branches that depend on inputs
        self._used: set[str] = set()
        self._dearer: dict[str, str] = {}
        self._kept: dict[str, None] = {}
        self._shorter: dict[str, None] = {}
        self._parts: dict[str, None] = {}

    def chosen(self, name: str, options: Sequence[str]) -> int | None:
        """The index of the option that the user chose for a branch; None if it is not named.

        InputError for a choice that is none of the options.
        """
        self._met[name] = None
        for pattern, option in self._branches.items():
            if name == pattern or fnmatch.fnmatchcase(name, pattern):
                self._used.add(pattern)
                if option not in options:
                    expected = f"expected {' or '.join(options)}, found {option!r}"
                    raise InputError(self._source, f"branch {name}", expected)
                return options.index(option)
        return None

    def dearer(self, name: str, option: str) -> None:
        """Note that the dearer option of a branch is planned, as neither a constant nor the user decides."""
        self._dearer[name] = option

    def kept(self, name: str, rounds: int) -> None:
        """Note that a loop stays one operator."""
        self._kept[f"{name} ({rounds:,} rounds)"] = None

    def shorter(self, name: str, rounds: int) -> None:
        """Note that a loop may end before its last round."""
        self._shorter[f"{name} ({rounds:,} rounds)"] = None

    def of_one_device(self, name: str) -> None:
        """Note that the program says what each device does in this part."""
        self._parts[name] = None

    def sentences(self) -> Iterator[str]:
        """What the user should know; InputError if a branch that the user names is not there."""
        for pattern in self._branches:
            if pattern not in self._used:
                expected = "expected the name of a branch whose condition depends on inputs"
                known = f", such as {_listed(map(repr, self._met))}" if self._met else ", but the model has none"
                found = near_miss(pattern, self._met) or known
                raise InputError(self._source, f"branch {pattern}", f"{expected}{found}")
        if self._dearer:
            listed = _listed(f"{name}={option}" for name, option in self._dearer.items())
            yield f"conditions depend on inputs, so the dearer branch is planned ({listed}); --branch names another"
        if self._kept:
            why = f"since unrolled they have more than {LARGEST_LOOP:,} operators"
            yield f"loops that stay one operator of rounds x body, {why}: {_listed(self._kept)}"
        if self._parts:
            what = "of what the program does on every device of its own mesh, one device's work counts"
            yield f"{what}: {_listed(self._parts)}"
        if self._shorter:
            yield f"loops that may end earlier count with all their rounds: {_listed(self._shorter)}"


def arithmetic(model: Model) -> tuple[int, int]:
    """Arithmetic operations of a model, and multiply-adds."""
    return sum(each.flops for each in model.operators), sum(each.multiply_adds for each in model.operators)


def work(model: Model) -> tuple[int, int, int]:
    """Arithmetic operations of a model, multiply-adds, and bytes moved."""
    every = range(len(model.operators))
    return *arithmetic(model), sum(model.bytes_read(index) + model.bytes_written(index) for index in every)


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:_MOST_NAMES]) + (f", ...; {len(found)} in all" if len(found) > _MOST_NAMES else "")
