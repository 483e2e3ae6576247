"""What is known of a StableHLO program as a whole: its functions, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.calls import MOST, Body, Sizes, counted, require_few
from shardmark.instances.models.control.choices import LARGEST_LOOP, LARGEST_NAMES, Choices
from shardmark.instances.models.model import Model
from shardmark.instances.models.stablehlo.functions import bodies, body_of
from shardmark.instances.models.stablehlo.types import Types


class Program:
    """A module.

    ``functions``  operations ``func.func`` by name
    ``choices``    branches that are taken, and loops that are not unrolled
    ``kept``       for loops that stay one operator, the model of a round
    ``taken``      for a branch, by its operation and name, and by its condition, the number of the region that is read
    ``names``      names of branches, by the same
    """

    def __init__(self, module: Any, source: str, branches: Mapping[str, str]) -> None:
        self.source = source
        self.types = Types(source)
        self.choices = Choices(source, branches)
        self.kept: dict[Any, Model] = {}
        self.taken: dict[tuple[Any, ...], int] = {}
        self.names: dict[str, Any] = {}
        self.functions: dict[str, Any] = {}
        self._sizes: Sizes = {}
        self._walked = 0
        for operation in module.body.operations:
            if operation.operation.name == "func.func":
                self.functions[operation.attributes["sym_name"].value] = operation

    def main(self) -> Any:
        """The function main, or else the only public one, which has a body and not too many operators."""
        main = self.functions.get("main")
        if main is None:
            public = [f for f in self.functions.values() if "sym_visibility" not in f.attributes]
            if len(public) != 1:
                raise InputError(self.source, "", f"expected a function main, found {len(public)} public functions")
            main = public[0]
        if not main.regions[0].blocks:
            raise InputError(self.source, "main", "expected a function with a body")
        self._sizes = require_few(bodies(self.functions), main.attributes["sym_name"].value, self.source)
        return main

    def count(self) -> None:
        """Count one more operation that is read; InputError if they are too many."""
        self._walked += 1
        if self._walked > MOST:
            expected = f"expected at most {MOST:,} operations once loops are unrolled"
            raise InputError(self.source, "loops", f"{expected}: write fewer rounds, or loops that are not nested")

    def unrolls(self, loop: Any, rounds: int, name: str) -> bool:
        """True if a loop, which runs so many rounds in all, is unrolled; else it stays one operator."""
        body = body_of(loop.regions[1].blocks[0])
        calls = [(callee, added + len(name)) for callee, added in body.calls]
        operators, size = counted(Body(body.operators, body.bytes + body.operators * len(name), calls), self._sizes)
        return rounds * operators <= LARGEST_LOOP and rounds * size <= LARGEST_NAMES
