"""Create an edition, or add parts to it: from results folders, each a part with the name of its folder."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from shardmark.harness.campaign.host import CHECKOUT
from shardmark.harness.editions import checks
from shardmark.harness.editions.columns import COLUMNS, TABLES, encoded
from shardmark.harness.editions.folder import (
    CHECKSUMS,
    DESCRIPTION,
    NAME,
    Edition,
    Part,
    files,
    read,
    solution_file,
)
from shardmark.harness.records.files import write
from shardmark.harness.results.database import Store, make_folder
from shardmark.harness.results.ranking import Tables, tables
from shardmark.harness.results.rows import Row
from shardmark.instances import InputError, catalog
from shardmark.instances.files.jsonfile import encode, sha256, write_bytes
from shardmark.solvers.registry import legal_name

_SUITE, _INSTANCE = re.compile("--suite=(.+)"), re.compile("-i|--instance")


@dataclass(frozen=True)
class Prepared:
    """A part that can be published: its rows by table, and the best solution of each instance by file."""

    part: Part
    rows: Mapping[str, Sequence[Row]]
    solutions: Mapping[str, Any]


def create(results: Sequence[Path], output: Path, accepted: str = "") -> Edition:
    """Write the current runs of results folders into an edition, new or not, each as a part; return the edition.

    ``accepted`` says why campaigns on a disturbed machine are published. InputError for a campaign that cannot be
    published, for a part whose name the edition's folder has, and for a folder that holds anything but an edition;
    nothing is written then.
    """
    edition = _existing(output)
    versions = {part.name: _versions(edition.rows(part, "runs")) for part in edition.parts}
    prepared: list[Prepared] = []
    for folder in results:
        name = legal_name(folder.resolve().name)
        if name in versions:
            raise InputError(folder, "", f"expected a folder of another name, as the edition has a part {name}")
        if name == DESCRIPTION or (output / name).exists():
            raise InputError(
                folder, "", f"expected a folder of another name, as the part would replace {output / name}"
            )
        with closing(Store.open(folder)) as store:
            scored = tables(store)
            checks.require_publishable(folder, scored, store.finished(), accepted)
            for other, known in versions.items():
                checks.require_one_version(folder, scored.runs, known, other)
            prepared.append(_prepared(name, store, scored, accepted))
        versions[name] = _versions(prepared[-1].rows["runs"])
    parts = sorted([*edition.parts, *(new.part for new in prepared)], key=lambda part: part.name)
    with _replaced(output.resolve()) as folder:
        for new in prepared:
            _write(folder / new.part.name, new)
        described = _described(Edition(folder, edition.name, parts))
        if _existing(output) != edition:
            raise InputError(
                output, "", "expected no other command to change it meanwhile; the same command adds to it"
            )
    return replace(described, folder=edition.folder)


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """Yield a copy of a folder, empty if there is none, that takes its place once it is written whole."""
    make_folder(folder.parent)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as stage:
            new = Path(stage, "new")
            if folder.exists():
                shutil.copytree(folder, new, symlinks=True)
            else:
                new.mkdir()
            yield new
            if folder.exists():
                folder.rename(Path(stage, "old"))
            new.rename(folder)
    except OSError as error:
        raise InputError(folder, "", f"expected a folder that can be written ({error.strerror or error})") from None


def _existing(output: Path) -> Edition:
    """Return the edition in a folder, or an empty one if nothing is there."""
    if (output / DESCRIPTION).exists():
        return read(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(output, "", "expected an edition, an empty folder, or none")
    name = output.resolve().name
    if not NAME.fits(name):
        raise InputError(output, "", f"expected a folder with {NAME.expected}")
    return Edition(output, name)


def _versions(runs: Sequence[Row]) -> dict[tuple[str, str], str]:
    """Return the versions of the methods of runs."""
    track, solver, code = (list(COLUMNS["runs"]).index(name) for name in ("track", "solver", "solver_hash"))
    return {(row[track], row[solver]): row[code] for row in runs}


def _prepared(name: str, store: Store, scored: Tables, accepted: str) -> Prepared:
    rows = {table: _kept(table, store, scored) for table in TABLES}
    found = ((instance, run, store.solution(run)) for run, instance in best_runs(scored))
    solutions = {solution_file(instance, run): solution for instance, run, solution in found if solution is not None}
    disturbances = scored.hosts.filter(pl.col("runs") > 0)["disturbances"].fill_null("")
    is_disturbed = any(words != "[]" for words in disturbances)
    part = Part(name, scored.runs.height, _suites(rows["campaigns"]), accepted if is_disturbed else "")
    return Prepared(part, rows, solutions)


def _write(folder: Path, new: Prepared) -> None:
    """Write a part into a new folder."""
    make_folder(folder)
    for table, rows in new.rows.items():
        write_bytes(folder / f"{table}.parquet", encoded(table, rows))
    for name, solution in new.solutions.items():
        write(folder / name, solution)


def _described(edition: Edition) -> Edition:
    """Write the description and the checksums of an edition; return it with what it leaves out."""
    names = list(COLUMNS["instances"])
    rows = [row for part in edition.parts for row in edition.rows(part, "instances")]
    run = {(row[names.index("track")], row[names.index("id")]) for row in rows}
    left_out = [
        {"track": entry.track, "suite": suite, "instance": entry.id}
        for suite in edition.suites
        for entry in catalog.suite(suite)
        if (entry.track, entry.id) not in run
    ]
    described = replace(edition, left_out=left_out)
    write_bytes(edition.folder / DESCRIPTION, encode(described.description))
    found = files(edition.folder, [part.name for part in edition.parts])
    lines = [f"{sha256(path.read_bytes())}  {name}\n" for name, path in found.items()]
    write_bytes(edition.folder / CHECKSUMS, "".join(lines).encode())
    return described


def best_runs(scored: Tables) -> list[tuple[str, str]]:
    """Return the run with the best solution of each instance, and the name of the instance."""
    costs = scored.runs.filter(pl.col("cost").is_not_null()).sort("cost", "time_to_best_s", "id")
    best = costs.unique("checksum", keep="first", maintain_order=True)
    return list(best.select("id", "instance").iter_rows())


def _kept(table: str, store: Store, scored: Tables) -> list[Row]:
    """Return the rows of a table that current runs refer to, without paths of the machine that they were made on."""
    names = list(COLUMNS[table])
    rows = store.select(table, names)
    runs = scored.runs
    keys: Mapping[str, tuple[tuple[str, ...], pl.DataFrame]] = {
        "campaigns": (("id",), runs.select("campaign")),
        "hosts": (("campaign", "name"), runs.select("campaign", "host")),
        "instances": (("checksum",), runs.select("checksum")),
        "solvers": (("track", "name", "hash"), runs.select("track", "solver", "solver_hash")),
        "runs": (("id",), runs.select("id")),
        "matrix": (("campaign", "run"), _asked(scored)),
        **{name: (("run",), runs.select("id")) for name in ("incumbents", "bounds", "certificates")},
    }
    columns, kept = keys[table]
    places = [names.index(column) for column in columns]
    wanted = set(kept.iter_rows())
    found = [row for row in rows if tuple(row[place] for place in places) in wanted]
    change = {"campaigns": ("command", _without_program), "runs": ("log", _without_checkout)}.get(table)
    if change is None:
        return found
    place = names.index(change[0])
    return [(*row[:place], change[1](row[place]), *row[place + 1 :]) for row in found]


def _asked(scored: Tables) -> pl.DataFrame:
    """Return ``campaign run`` of current runs, by the campaigns that made some of them."""
    runs = scored.runs
    return scored.history.asked.join(runs, left_on="run", right_on="id", how="semi").join(
        runs, on="campaign", how="semi"
    )


def _without_program(command: str) -> str:
    """Return a command, as JSON, that calls the program by its name."""
    return json.dumps(["shardmark", *json.loads(command)[1:]], ensure_ascii=False)


def _without_checkout(log: str) -> str:
    """Return a log with paths relative to the checkout."""
    return log.replace(f"{CHECKOUT}/", "")


def _suites(campaigns: Sequence[Row]) -> list[str]:
    """Return the suites that the commands of campaigns name; ``quick`` for a `run` that names no instance either."""
    place = list(COLUMNS["campaigns"]).index("command")
    found = set()
    for row in campaigns:
        command = json.loads(row[place])
        joined = [match[1] for word in command if (match := _SUITE.fullmatch(word))]
        named = [*joined, *(word for before, word in pairwise(command) if before == "--suite")]
        names_none = "run" in command and not any(map(_INSTANCE.match, command))
        found |= set(named or (["quick"] if names_none else []))
    return sorted(found)
