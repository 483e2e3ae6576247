"""Tables of a cross-check: instances by mode and size, and what each method claimed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from crosscheck.campaign import Result
from crosscheck.check import Contradiction, least, proven, tight

COLUMNS = ("runs", "bounds", "tight", "tight %", "proofs", "declined", "failures", "contradictions", "CPU s")


def line(result: Result, found: Contradiction) -> str:
    """Return the line of a contradiction."""
    place = f"{result.track} seed {result.seed} ({result.mode}; {result.kind})"
    return f"CONTRADICTION {place}: {found.method}: {found.claim}; {found.against}"


def failures(result: Result) -> Iterator[str]:
    """Yield a line per method that failed on an instance."""
    for name, claims in result.claims.items():
        if claims.failed:
            place = f"{result.track} seed {result.seed} ({result.mode}; {result.kind})"
            yield f"FAILURE {place}: {name}: {claims.failed.strip().splitlines()[-1]}"


def report(results: Sequence[Result]) -> str:
    """Return the tables of all results."""
    parts = []
    for track in dict.fromkeys(result.track for result in results):
        mine = [result for result in results if result.track == track]
        cpu = sum(result.seconds for result in mine) / len(mine)
        parts.append(f"{track}: {len(mine)} instances, {cpu:.1f} s of CPU each")
        parts.append(_table("mode", _by(mine, lambda result: result.mode)))
        parts.append(
            _table("nodes", _by(mine, lambda result: f"{result.nodes // 10 * 10}-{result.nodes // 10 * 10 + 9}"))
        )
        parts.append(_table("method", _methods(mine)))
    return "\n\n".join(parts)


def _by(results: Iterable[Result], key: Callable[[Result], str]) -> dict[str, Counter[str]]:
    """Count instances and claims of all methods by a fact of the instance."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for result in sorted(results, key=key):
        counted = rows[key(result)]
        counted["instances"] += 1
        counted["solved"] += least(result.claims) is not None
        for one in _counted(result).values():
            counted += one
        rows[key(result)] = counted
    return rows


def _methods(results: Iterable[Result]) -> dict[str, Counter[str]]:
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        for name, one in _counted(result).items():
            rows[name] += one
    return dict(sorted(rows.items()))


def _counted(result: Result) -> dict[str, Counter[str]]:
    """Count the claims of each method on one instance."""
    best, rows = least(result.claims), dict[str, Counter[str]]()
    for name, claims in result.claims.items():
        rows[name] = Counter(
            {
                "runs": 1,
                "bounds": claims.bound is not None,
                "tight": tight(claims, best and best[1].cost),
                "proofs": proven(result.track, claims) or bool(claims.nothing),
                "declined": bool(claims.declined) and not claims.nothing,
                "failures": bool(claims.failed),
                "CPU s": claims.seconds,  # type: ignore[dict-item]
            }
        )
    for found in result.contradictions():
        rows.setdefault(found.method, Counter())["contradictions"] += 1
    return rows


def _table(title: str, rows: dict[str, Counter[str]]) -> str:
    """Return the table of some counts; "tight %" is the share of a method's runs that are not declined."""
    leading = [name for name in ("instances", "solved") if any(name in row for row in rows.values())]
    columns = [*leading, *COLUMNS]
    wide = max(map(len, [title, *rows]))
    lines = [f"{title:{wide}}  " + "  ".join(columns)]
    for key, row in rows.items():
        taken = row["runs"] - row["declined"]
        values = {
            **row,
            "tight %": f"{100 * row['tight'] / taken:.0f}" if taken else "-",
            "CPU s": f"{row['CPU s']:.0f}",
        }
        lines.append(f"{key:{wide}}  " + "  ".join(f"{values.get(name, 0)!s:>{len(name)}}" for name in columns))
    return "\n".join(lines)
