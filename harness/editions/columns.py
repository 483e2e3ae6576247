"""Tables of a results database as Parquet files: the same rows give the same bytes, and are read back losslessly.

A file has the columns of its table as `shardmark.harness.results.schema` documents them, less those that follow from
others (the floats beside exact decimal texts), solutions, and files of certificates. Rows are sorted by the table's
key. Texts are UTF-8, numbers 64 bits wide, a missing value is null.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from shardmark.harness.results import rows as stored
from shardmark.harness.results.rows import KEYS, Kind, Row, checked
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import read_bytes

#: Tables of an edition, those first that others refer to.
TABLES = ("campaigns", "hosts", "instances", "solvers", "runs", "matrix", "incumbents", "bounds", "certificates")
#: Values of each column, by table; the database keeps a float beside each exact text, too.
COLUMNS = {
    table: {name: kind for name, kind in stored.COLUMNS[table].items() if not name.endswith("_float")}
    for table in TABLES
}
ROWS_AT_ONCE = 1 << 16  # rows of a group, which are compressed together
LEVEL = 19  # of zstd: slow to write, as fast to read as any
LARGEST = 64 << 20  # bytes of a file


def encoded(table: str, rows: Sequence[Row]) -> bytes:
    """Return rows of a table, in the order of `COLUMNS`, as Parquet."""
    names = list(COLUMNS[table])
    values = zip(*rows, strict=True) if rows else ((),) * len(names)
    frame = pl.DataFrame(
        [pl.Series(name, column, _type(COLUMNS[table][name])) for name, column in zip(names, values, strict=True)]
    )
    content = io.BytesIO()
    frame.sort(KEYS[table]).write_parquet(
        content, compression="zstd", compression_level=LEVEL, statistics=False, row_group_size=ROWS_AT_ONCE
    )
    return content.getvalue()


def decoded(path: Path, table: str) -> Sequence[Row]:
    """Return the rows of a table in a file, checked; InputError if it holds anything else."""
    kinds = COLUMNS[table]
    schema = {name: _type(kind) for name, kind in kinds.items()}
    try:
        frame = pl.read_parquet(io.BytesIO(read_bytes(path, LARGEST)))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(path, "", f"expected Parquet ({' '.join(str(error).split())[:200]})") from None
    if dict(frame.schema) != schema:
        raise InputError(path, "", f"expected the columns {', '.join(kinds)} with their types")
    return checked(path, table, list(kinds), frame.rows())


def _type(kind: Kind) -> Any:
    """Return the type of the column of a kind of values."""
    types = kind.types - {type(None)}
    if types == {int}:
        return pl.Int64
    return pl.Float64 if float in types else pl.String
