"""The data of the site: tables, logs and solutions, the same bytes for the same database, whatever the names are."""

from __future__ import annotations

import gzip
import io
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from shardmark.harness.results.database import Store
from shardmark.harness.results.export import run_table
from shardmark.harness.results.ranking import tables
from shardmark.harness.results.records import Incumbent
from shardmark.leaderboard import downloads
from shardmark.leaderboard.build import build
from tests.leaderboard.conftest import filled
from tests.leaderboard.sites import dead_links, files
from tests.performance.large_site import generate

HOSTILE = ("../../escaped", "<img src=x onerror=alert(1)>", "a\u202eb", "n" * 10_000)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a generated results folder."""
    return generate(tmp_path_factory.mktemp("generated"), 10, 15, 2)


def test_the_same_database_gives_the_same_bytes_and_every_link_a_file(results: Path, tmp_path: Path) -> None:
    sites = []
    for name in ("one", "two"):
        with closing(Store.open(results)) as store:
            scored = tables(store)
            sites.append(files(build(scored, tmp_path / name).parent))
            frame = run_table(scored)
    first, second = sites
    assert first == second
    assert max(len(content) for path, content in first.items() if path.endswith(".html")) < 2 * 2**20
    assert list(dead_links(first)) == []
    packed = first.get("data/runs.csv.gz")
    text = gzip.decompress(packed) if packed else first["data/runs.csv"]
    assert pl.read_csv(io.BytesIO(text), infer_schema=False).height == frame.height == 300
    assert pl.read_parquet(io.BytesIO(first["data/runs.parquet"])).equals(downloads.flat(frame))
    logs = [path for path in first if path.startswith("data/logs/")]
    assert len(logs) == 2  # one per content, not per run
    assert first["data/solutions/pipeline/graph-000-k4.json"].startswith(b"[0, ")


def test_hostile_names_are_text_and_stay_in_the_folder(tmp_path: Path) -> None:
    with filled(tmp_path, "pipeline") as filler:
        for name in HOSTILE:
            filler.declare(name, "solver")
            filler.store.add_instance(f"pipeline-{name}", name, "pipeline", {"nodes": 3}, {})
        for solver in HOSTILE:
            for instance in HOSTILE:
                filler.add(solver, "solver", 0, instance, "ok", "", 7.5, [Incumbent(0.1, True, 7.5)], [])
        site = build(tables(filler.store), tmp_path / "deep" / "er" / "site").parent
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "results"]
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<img" not in text, page
        assert "\u202e" not in text, page
        assert len(text) < 2 * 2**20, page
