"""Rows of the database as Parquet, and back."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shardmark.harness.editions.columns import TABLES, decoded, encoded
from shardmark.harness.results.rows import KEYS
from shardmark.instances import InputError

REPORTS = [("r2", 0, 0.1, "9" * 30), ("r1", 1, 0.30000000000000004, "1e-300")]


def test_rows_are_read_back_sorted_and_exact(tmp_path: Path) -> None:
    path = tmp_path / "bounds.parquet"
    path.write_bytes(encoded("bounds", REPORTS))
    assert decoded(path, "bounds") == sorted(REPORTS)


def test_the_order_of_rows_changes_no_byte() -> None:
    assert encoded("bounds", REPORTS) == encoded("bounds", REPORTS[::-1])


def test_tables_without_rows_and_missing_values_are_kept(tmp_path: Path) -> None:
    for table in TABLES:
        path = tmp_path / f"{table}.parquet"
        path.write_bytes(encoded(table, []))
        assert decoded(path, table) == []
    assert set(TABLES) == set(KEYS)
    row = ("r", 0, 0.5, 1, None)
    path.write_bytes(encoded("incumbents", [row]))
    assert decoded(path, "incumbents") == [row]


@pytest.mark.parametrize(
    ("table", "rows", "expected"),
    [
        ("", [], "expected Parquet"),
        ("matrix", [], "expected the columns run, number"),
        ("bounds", [("r", 0, 0.5, "nan")], "bounds run 'r', number 0 value: expected a number"),
    ],
)
def test_a_file_of_anything_else_is_refused(table: str, rows: list[Any], expected: str, tmp_path: Path) -> None:
    path = tmp_path / "bounds.parquet"
    path.write_bytes(encoded(table, rows) if table else b"no Parquet")
    with pytest.raises(InputError, match=r"bounds\.parquet") as error:
        decoded(path, "bounds")
    assert expected.split()[0] in str(error.value)
    assert "columns" not in expected or "columns" in str(error.value)


def test_rows_are_compressed_in_groups_of_fixed_size() -> None:
    rows = [(f"r{number:06}", 0, 0.5, "1") for number in range(70_000)]
    content = encoded("bounds", rows)
    assert content.startswith(b"PAR1")
    assert pl.read_parquet(io.BytesIO(content)).height == len(rows)
    assert len(content) < 400_000
