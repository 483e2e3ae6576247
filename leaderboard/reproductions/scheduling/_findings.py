"""The paper's findings on its pairs of methods, compared with the results here."""

from __future__ import annotations

from collections.abc import Sequence

from shardmark.leaderboard.report import HERE, PAPER, Section, Table
from shardmark.leaderboard.reproductions import Settings
from shardmark.leaderboard.reproductions._frame import ratio
from shardmark.leaderboard.reproductions.scheduling._networks import PAIRS, Network, Row, draws, published, spread

#: A pair counts as good as the best if its mean is at most this many times as large.
NEAR = 1.05


def findings(every: Sequence[Network], settings: Settings) -> Section:
    """Tabulate if the paper's findings hold here, and by how much."""
    solved = [network for network in every if network.solved(PAIRS)]
    ratios = Table(
        "The worst and the best pair",
        [row for network in solved for row in _extremes(network)],
        digits=2,
        note="Ratios of means. Last column: 1 if critical path + PCT is the best pair, otherwise its mean makespan / "
        "that of the best pair.",
    )
    held = Table(
        "The paper's findings, and results here",
        _claims(solved) if solved else [],
        note=f"In brackets: makespan of {published()['best']} / that of the best pair; the finding holds up to "
        f"{NEAR:g}. A partitioner is rated by the mean of its pairs.",
    )
    return Section("Does it hold?", _told(solved, settings) if solved else [], [held, ratios])


def _told(solved: Sequence[Network], settings: Settings) -> list[str]:
    """The answer in plain words."""
    best, worst = published()["best"], published()["worst"]
    far = [x for network in solved if (x := ratio(network.mean(best), network.least)) is not None]
    if not far:
        return []
    on = f"on {draws(settings)}{' of each network' if len(solved) > 1 else ''}"
    if max(far) <= NEAR:
        words = [f"The paper's finding holds {on}: {best} is the best pair, or within {100 * (NEAR - 1):.0f} % of it."]
    else:
        firsts = ", ".join(dict.fromkeys(network.solved(PAIRS)[0] for network in solved))
        words = [
            f"The paper's finding does not hold {on}: the best pair is {firsts}, and {best} takes {spread(far)} times "
            "as long."
        ]
    slower = [x for network in solved if (x := ratio(network.mean(worst), network.mean(best))) is not None]
    slow = [x for network in solved if (x := ratio(network.mean(worst), network.least)) is not None]
    if slower:
        words.append(
            f"{worst} takes {spread(slower)} times as long as {best} (up to {published()['ratio']:g} in the paper), "
            f"and {spread(slow)} times as long as the best pair."
        )
    return words


def _claims(solved: Sequence[Network]) -> list[Row]:
    """Compare each of the paper's findings with every network here."""
    best, worst, greatest = published()["best"], published()["worst"], published()["ratio"]
    behind = [ratio(network.mean(best), network.least) for network in solved]
    firsts = [f"{network.solved(PAIRS)[0]} ({_shown(far)})" for network, far in zip(solved, behind, strict=True)]
    pairs, families = [network.solved(PAIRS)[-1] for network in solved], [network.slowest for network in solved]
    family = worst.rpartition("-")[0]
    apart = [ratio(network.mean(worst), network.mean(best)) for network in solved]
    rows = [
        (f"best pair: {best}", firsts, _verdict([far is not None and far <= NEAR for far in behind])),
        (f"worst pair: {worst}", pairs, _verdict([name == worst for name in pairs])),
        (f"worst partitioner: {family}", families, _verdict([name == family for name in families])),
        (f"greatest {worst} / {best}: about {greatest:g}", map(_shown, apart), _about(apart, greatest)),
    ]
    names = [network.name for network in solved]
    return [
        {"the paper": words, **dict(zip(names, found, strict=True)), "holds": verdict} for words, found, verdict in rows
    ]


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _verdict(holds: Sequence[bool]) -> str:
    """Words for the number of networks on which a finding holds."""
    return "yes" if all(holds) else "no" if not any(holds) else f"on {sum(holds)} of {len(holds)}"


def _about(values: Sequence[float | None], stated: float) -> str:
    """Compare the largest of some values with the published one."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    if max(known) < stated / NEAR:
        return "no, it is less"
    return "no, it is more" if max(known) > stated * NEAR else "yes"


def _extremes(network: Network) -> list[Row]:
    """Two rows with the ratio of the worst and the best pair, the paper's and ours."""
    best, worst, greatest = published()["best"], published()["worst"], published()["ratio"]
    pairs = network.solved(PAIRS)
    span, far = (ratio(network.mean(pair), network.least) for pair in (pairs[-1], best))
    apart = ratio(network.mean(worst), network.mean(best))
    figures = {
        PAPER: (best, worst, greatest, greatest, 1.0),
        HERE: (pairs[0], pairs[-1], span, apart, far),
    }
    columns = ("best pair", "worst pair", "worst / best", f"{worst} / {best}", f"{best} / best")
    return [
        {"network": network.name, "figures": whose, **dict(zip(columns, row, strict=True))}
        for whose, row in figures.items()
    ]
