"""The data of the site: every table as CSV, Parquet and JSON, best solutions, instance files and logs.

Text of more than `LARGE` bytes is compressed with gzip, without a time, so that the same tables give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import polars as pl

from shardmark.harness.results.export import run_table
from shardmark.harness.results.ranking import Tables
from shardmark.leaderboard.attachments import FOLDER, results_file
from shardmark.leaderboard.pages.site import Page, Site
from shardmark.leaderboard.text import log_file, printable

File = tuple[str, bytes]  # path from the root of the site, and content

PAGE = f"{FOLDER}/index.html"
KINDS = {"csv": "CSV", "json": "JSON", "parquet": "Parquet"}
LARGE = 1 << 20  # bytes of text that are not compressed
AT_ONCE = 2_000  # rows that are written at once
#: Tables, and what a row of each is.
TABLES = {
    "runs": "a current run, with its scores",
    "results": "a method on an instance, the mean over seeds",
    "solvers": "a solver's place in a ranking",
    "bounds": "a bound method's place in a ranking",
    "instances": "an instance, with its best known cost and bound",
    "incumbents": "a reported solution: run, time, cost",
    "reported": "a reported lower bound: run, time, value",
    "profiles": "a step of a performance profile",
    "anytime": "a step of a score over time",
    "declined": "a method that declined a whole division",
    "published": "a published result, compared with ours",
    "contradictions": "a lower bound above a known cost",
    "campaigns": "a call of shardmark run",
    "hosts": "a machine of a campaign",
    "notes": "a caveat for comparisons",
}


def pages(site: Site) -> Iterator[Page]:
    """Yield the page that lists the tables."""
    rows = [(name, about, getattr(site.tables, name).height) for name, about in TABLES.items()]
    yield site.page(PAGE, "data.html", rows=rows)


def link(site: Site, paths: Iterable[str]) -> None:
    """Tell the templates the files of each table, by kind, once they are written to these paths."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in paths:
        name, kind, *_ = path.removeprefix(f"{FOLDER}/").split(".")
        found.setdefault(name, []).append((KINDS[kind], path))
    site.shown["data_files"] = found


def table_files(tables: Tables) -> Iterator[File]:
    """Yield the files of all tables, one table in memory at a time; its kinds are written side by side."""
    with ThreadPoolExecutor() as pool:
        for name in TABLES:
            frame = flat(run_table(tables) if name == "runs" else getattr(tables, name))
            yield from pool.map(partial(_table_file, name, frame), KINDS)


def _table_file(name: str, frame: pl.DataFrame, kind: str) -> File:
    path = f"{FOLDER}/{name}.{kind}"
    if kind == "parquet":
        packed = io.BytesIO()
        frame.write_parquet(packed, compression="zstd")
        return path, packed.getvalue()
    return _text(path, _csv(frame) if kind == "csv" else _json(frame))


def files(site: Site) -> Iterator[File]:
    """Yield path and content of every other file of data; `pages` follows."""
    yield from _solutions(site)
    yield from _instances(site)
    yield from _results(site)
    written = set()
    for run, log in site.tables.store.logs():
        path = site.logs.get(run)
        if path and path not in written:
            written.add(path)
            yield log_file(path), printable(log).encode()


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table whose lists are JSON text, as CSV has none."""
    lists = [name for name, kind in frame.schema.items() if kind == pl.List]
    texts = {name: [json.dumps(value, ensure_ascii=False) for value in frame[name].to_list()] for name in lists}
    return frame.with_columns(pl.Series(name, values, pl.String) for name, values in texts.items())


def _csv(frame: pl.DataFrame) -> Iterator[bytes]:
    yield (",".join(frame.columns) + "\n").encode()
    for part in frame.iter_slices(AT_ONCE):
        yield part.write_csv(include_header=False).encode()


def _json(frame: pl.DataFrame) -> Iterator[bytes]:
    """A list of objects, one per row."""
    yield b"["
    for number, part in enumerate(frame.iter_slices(AT_ONCE)):
        rows = part.write_json()[1:-1]
        yield f"{',' if number and rows else ''}{rows}".encode()
    yield b"]\n"


def _text(path: str, parts: Iterator[bytes]) -> File:
    plain, packed = io.BytesIO(), io.BytesIO()
    for part in parts:
        plain.write(part)
        if plain.tell() > LARGE:
            break
    else:
        return path, plain.getvalue()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=4, fileobj=packed, mtime=0) as file:
        file.write(plain.getvalue())
        for part in parts:
            file.write(part)
    return f"{path}.gz", packed.getvalue()


def _solutions(site: Site) -> Iterator[File]:
    """Yield the best solution of every instance that has a stored one."""
    for checksum, path in site.solutions.items():
        solution = site.tables.store.solution(site.best_runs[checksum])
        yield path, (json.dumps(solution) + "\n").encode()


def _instances(site: Site) -> Iterator[File]:
    """Yield the files of instances that come with the project."""
    for path, source in site.instance_files.values():
        yield path, source.read_bytes()


def _results(site: Site) -> Iterator[File]:
    """Yield the results on each instance, the rows of its page."""
    cells = flat(site.cells.drop("seeds", "asked"))
    for (track, instance), rows in cells.group_by("track", "instance", maintain_order=True):
        yield results_file(str(track), str(instance)), b"".join(_csv(rows))
