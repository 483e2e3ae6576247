"""Which solver to use: how close to the best each one came within a time, on instances of similar size."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from shardmark.harness.results.ranking import Tables
from shardmark.harness.results.ranking.frames import DIVISION

NEAREST = 5  # instances of the nearest sizes that count
CLOSE = 0.02  # cost above the best one, relatively, that counts as close to it
#: Numbers of nodes at which the classes of size end.
SIZES = (50, 200, 1000, math.inf)

Row = dict[str, Any]


def shares(tables: Tables, seconds: float) -> pl.DataFrame:
    """Return ``track division instance checksum nodes solver share time_s``: each solver on each instance.

    ``share`` is the least cost that any solver found within the seconds / its own, averaged over seeds; 0 for a run
    without a solution by then. ``time_s`` is the median time to the best solution by then.
    """
    found = (
        tables.incumbents.filter(
            (pl.col("feasible") == 1) & (pl.col("time_s") <= seconds) & pl.col("cost").is_not_null()
        )
        .sort("run", "cost", "time_s")
        .unique("run", keep="first", maintain_order=True)
        .select("cost", "time_s", id="run")
    )
    nodes = [(json.loads(summary).get("nodes"), checksum) for summary, checksum in _summaries(tables)]
    sizes = pl.DataFrame(nodes, {"nodes": pl.Int64, "checksum": pl.String}, orient="row")
    runs = tables.runs.filter(pl.col("kind") == "solver").select("id", *DIVISION, "instance", "checksum", "solver")
    best = pl.col("cost").min().over("checksum")
    share = pl.when(pl.col("cost") == best).then(1.0).otherwise(best / pl.col("cost")).fill_null(0.0)
    return (
        runs.join(found, on="id", how="left")
        .filter(best.is_not_null())
        .with_columns(share=share.clip(0.0, 1.0))
        .group_by(*DIVISION, "instance", "checksum", "solver")
        .agg(pl.col("share").mean(), pl.col("time_s").median())
        .join(sizes, on="checksum")
        .sort(*DIVISION, "instance", "solver")
    )


def _summaries(tables: Tables) -> Sequence[tuple[str, str]]:
    return list(tables.instances.select("summary", "checksum").iter_rows())


def nearest(found: pl.DataFrame, nodes: int) -> pl.DataFrame:
    """Return the rows of the `NEAREST` instances whose sizes are nearest to a number of nodes, relatively."""
    far = (pl.col("nodes").clip(1).log() - math.log(max(1, nodes))).abs()
    kept = found.select("checksum", "instance", far=far).unique().sort("far", "instance").head(NEAREST)
    return found.filter(pl.col("checksum").is_in(kept["checksum"].implode()))


def advice(found: pl.DataFrame, of_track: pl.DataFrame) -> list[Row]:
    """Return a row per solver of rows of `shares` of one division, the best first.

    ``share`` is its mean over the instances; ``close`` counts those on which it costs at most `CLOSE` more than the
    best solver, and ``instances`` all; ``time_s`` is the median time to its best solutions. Ties, common on easy
    instances, go to the solver with the greater mean ``overall``, over the rows ``of_track``.
    """
    size, overall = found["checksum"].n_unique(), of_track["checksum"].n_unique()
    share = pl.col("share").sum()  # an instance that it did not run on counts 0
    ranked = (
        found.group_by("solver")
        .agg(share / size, close=(pl.col("share") * (1 + CLOSE) >= 1).sum(), time_s=pl.col("time_s").median())
        .with_columns(instances=pl.lit(size))
        .join(of_track.group_by("solver").agg(overall=share / overall), on="solver")
        .sort(
            pl.col("share").round(6),
            pl.col("overall").round(6),
            pl.col("time_s").fill_null(math.inf),
            "solver",
            descending=[True, True, False, False],
        )
    )
    return ranked.select("solver", "share", "close", "instances", "time_s", "overall").to_dicts()


def decisions(tables: Tables, limits: Sequence[float]) -> list[Row]:
    """Return the solver to use for each division, class of size and time that a campaign has runs for.

    A row has ``track division limit_s``, ``least`` and ``most`` nodes, and the first row of `advice`.
    """
    rows = []
    for seconds in limits:
        found = shares(tables, seconds)
        for (track, division), part in found.group_by(*DIVISION, maintain_order=True):
            for least, most in zip((0, *SIZES), SIZES, strict=False):
                in_class = part.filter((pl.col("nodes") > least) & (pl.col("nodes") <= most))
                if in_class.height:
                    place = {"track": track, "division": division, "least": least, "most": most, "limit_s": seconds}
                    rows.append({**place, **advice(in_class, found.filter(pl.col("track") == track))[0]})
    return sorted(rows, key=lambda row: (row["track"], row["division"], row["least"], row["limit_s"]))
