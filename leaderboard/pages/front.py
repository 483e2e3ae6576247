"""The top of a division: its verdict and its ranking chart."""

from __future__ import annotations

from markupsafe import Markup

from shardmark.leaderboard.charts import Bar
from shardmark.leaderboard.pages.axes import losses
from shardmark.leaderboard.pages.tracks import Division, Row
from shardmark.leaderboard.text import apart, page_of, score_text


def front(division: Division, root: str, most: int, wide: int, newest: str | None) -> Row:
    """The verdict and the chart at the top of a division."""
    return {
        "division": division,
        "verdict": verdict(division),
        "ranking_chart": ranking_chart(division, root, most, wide, newest),
    }


def verdict(division: Division) -> Row | None:
    """The leaders, their margin, and the next solver; None if no solver scored."""
    ranking = division.ranking
    if not ranking or ranking[0]["score_sum"] == 0:
        return None
    leaders = [row for row in ranking if row["rank"] == 1]
    second = next(iter(ranking[len(leaders) :]), None)
    digits = apart(leaders[0]["score_sum"], second["score_sum"]) if second else 2
    shown = [float(score_text(row["score_sum"], digits)) for row in (leaders[0], second) if row]
    return {
        "leaders": [row["solver"] for row in leaders],
        "first": leaders[0],
        "second": second,
        "lead": f"{shown[0] - shown[1]:.{digits}f}" if second else None,  # as a reader subtracts
        "digits": digits,
    }


def ranking_chart(division: Division, root: str, most: int, wide: int, newest: str | None) -> Markup:
    """Draw the first ``most`` solvers of a ranking, and the ``newest`` if it is not among them.

    ``root`` leads from the page to the root of the site.
    """
    shown = [row for place, row in enumerate(division.ranking) if place < most or row["solver"] == newest]
    bars = [
        Bar(
            name=row["solver"],
            href=root + page_of("solvers", division.track, row["solver"]),
            value=row["score_sum"] / row["instances"],
            floor=row["certified_sum"] / row["instances"] if row["certified_instances"] else None,
            words=score_text(row["score_sum"], 2),
            title=f"{row['solver']}: score sum {score_text(row['score_sum'], 2)} of {row['instances']}, "
            f"of which {score_text(row['certified_sum'], 2)} is certified",
            style=division.colours[row["solver"]],
            solver=row["solver"],
        )
        for row in shown
    ]
    return losses(bars, "1 − mean score", wide)
