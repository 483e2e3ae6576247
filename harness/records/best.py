"""The best known cost and bound of each instance of the catalog, compared with the published ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from shardmark.harness.records.history import FOLDER, Improvement, locked, read
from shardmark.harness.results import claims
from shardmark.harness.results.records import number
from shardmark.instances import InputError, catalog
from shardmark.instances.catalog import Entry

#: Name of the records among the authors of costs and bounds, which are methods and "published" otherwise.
RECORDS = "records"


@dataclass(frozen=True)
class BestKnown:
    """The record of an instance: its best verified solution, its greatest bound, and how they improved.

    ``folder`` has the files of solutions and certificates.
    """

    entry: Entry
    history: Sequence[Improvement]
    folder: Path = FOLDER

    @cached_property
    def cost(self) -> Improvement | None:
        """The least cost; of equal ones the first."""
        costs = (line for line in self.history if line.kind == "cost")
        return min(costs, key=lambda line: Fraction(line.value), default=None)

    @cached_property
    def standing(self) -> Sequence[Improvement]:
        """The bounds that were not withdrawn."""
        return [line for line in self.history if line.kind == "bound" and not line.withdrawn]

    @cached_property
    def bound(self) -> Improvement | None:
        """The greatest bound that was not withdrawn; of equal ones that with a certificate, else the first.

        If one with a certificate proves the cost optimal, it is that one: the others can be greater by rounding only.
        """
        return max(self.standing, key=self._worth, default=None)

    def _worth(self, line: Improvement) -> tuple[bool, Fraction, bool]:
        certified = bool(line.certificate)
        settles = certified and self.cost is not None and bool(claims.optimal(self.cost.number, line.number))
        return settles, Fraction(line.value), certified

    @cached_property
    def checksum(self) -> str:
        """Identity of the instance, content and options, that the record is about; empty without a record."""
        return self.history[0].checksum if self.history else ""

    def refuted(self, bound: int | float, ours: int | float | None) -> str:
        """Return in words the cost below a bound, ``ours`` or the best published one; empty if there is none."""
        text = self.entry.published.get("best_cost")
        published = None if text is None else number(text)
        integral = isinstance(bound if ours is None else ours, int)
        for whose, cost in (("verified", ours), ("published", published)):
            if cost is not None and claims.contradicts(bound, cost, integral):
                return f"the {whose} cost {cost!r}"
        return ""

    @cached_property
    def status(self) -> str:
        """Return "optimal" if our bound proves our cost, "open" if there is a cost, else "unknown"."""
        if self.cost is None:
            return "unknown"
        bound = None if self.bound is None else self.bound.number
        return "optimal" if claims.optimal(self.cost.number, bound) else "open"

    @cached_property
    def gap(self) -> float | None:
        """cost / bound - 1, 0 if proven; None without a cost or a positive bound, and if the cost refutes the bound."""
        if self.cost is None or self.bound is None:
            return None
        cost, bound = self.cost.number, self.bound.number
        return None if claims.contradicts(bound, cost, isinstance(cost, int)) else claims.gap(cost, bound)

    @cached_property
    def over_published(self) -> float | None:
        """cost / best published cost - 1, negative if ours is better; None if one is missing or the latter is 0.

        0 if the difference can be rounding: a published cost with decimals was rounded or cut off in print, and is
        rounded up by a whole unit of its last digit here.
        """
        text = self.entry.published.get("best_cost")
        if self.cost is None or text is None or Fraction(text) == 0:
            return None
        over = Fraction(self.cost.value) - Fraction(text)
        exponent = int(Decimal(text).as_tuple().exponent)
        rounding = Fraction(3, 2) * Fraction(10) ** exponent if exponent < 0 else 0
        return 0.0 if -rounding <= over <= 0 else claims.quotient(over, Fraction(text))


def best_known(folder: Path = FOLDER, wrong: Callable[[InputError], None] | None = None) -> list[BestKnown]:
    """Return the record of every instance, in the order of the catalog; those without one have no history.

    Given ``wrong``, lines that cannot be read are left out, and their errors are handed to it.
    """
    with locked(folder):
        return unlocked(folder, wrong)


def by_checksum(folder: Path = FOLDER, wrong: Callable[[InputError], None] | None = None) -> dict[str, BestKnown]:
    """Return the records of instances that have one, by the checksum of content, track and options."""
    return {record.checksum: record for record in best_known(folder, wrong) if record.history}


def unlocked(folder: Path, wrong: Callable[[InputError], None] | None = None) -> list[BestKnown]:
    """Like `best_known`, for a caller that has `locked` the folder."""
    history = read(folder, wrong)
    return [BestKnown(entry, tuple(history.get(entry.id, ())), folder) for entry in catalog.entries()]


def chosen(
    records: Sequence[BestKnown], track: str | None = None, suite: str | None = None, ids: Sequence[str] = ()
) -> list[BestKnown]:
    """Return the records that are of the track, the suite and the ids, if given; InputError for an unknown name."""
    wanted = {catalog.find(name).id for name in ids}
    members = None if suite is None else {entry.id for entry in catalog.suite(suite)}
    return [
        record
        for record in records
        if track in (None, record.entry.track)
        and (members is None or record.entry.id in members)
        and (not wanted or record.entry.id in wanted)
    ]
