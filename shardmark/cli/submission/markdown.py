"""The Markdown of a summary, as a comment on GitHub shows it. Standard library only.

A summary has numbers, fixed words and names of a few characters, see `summary`. Names are written as code, so that
GitHub makes no link or mention of them; nothing else needs escaping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardmark.cli.submission.summary import (
    CLAIMS,
    NO,
    PASSED,
    RATIOS,
    REASONS,
    REFUSED,
    STATUSES,
    UNREVIEWED,
    UNTESTED,
    UNUSUAL,
    YES,
)

LONGEST = 60_000  # characters; a comment on GitHub has at most 65,536
MOST_ROWS = 40  # of a table
BARS = " ▁▂▃▄▅▆▇█"


def markdown(summary: Mapping[str, Any]) -> str:
    """Return a summary as Markdown that GitHub shows: outcome, what failed, standing, profile, claims."""
    text = "\n".join(_blocks(summary))
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(chr(10))[0]}\n\nCut here: too long.\n"


def failures(summary: Mapping[str, Any]) -> list[str]:
    """Return what failed, a line of Markdown each."""
    lines = [
        f"{_path(file['path'])} {REASONS[file['reason']]}" for file in summary["left"] if file["reason"] in REFUSED
    ]
    for part in (*summary["solvers"], *summary["instances"]):
        name = part.get("name") or part["instance"]
        lines += [f"`{name}`: {line}" for line in _failed_checks(part["checks"])]
        lines += [_claim_line(f"`{name}`", claim) for claim in part.get("claims", ()) if _fails(claim)]
    return lines + [_claim_line("record", line) for line in summary["records"] if _fails(line)]


def _failed_checks(checks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line per check that failed, with all instances on which it failed in the same way."""
    groups: dict[tuple[str, str | None], list[str]] = {}
    for check in checks:
        if check["passed"] == NO:
            group = groups.setdefault((check["check"], check.get("status")), [])
            group += [check["instance"]] if check.get("instance") else []
    for (name, status), instances in groups.items():
        on = f" {', '.join(f'`{instance}`' for instance in instances)}" if instances else ""
        yield f"{name}{on}: no{f' ({status}: {STATUSES[status]})' if status else ''}"


def _fails(claim: Mapping[str, Any]) -> bool:
    return claim["result"] in ("not confirmed", "wrong", "no improvement")


def _claim_line(who: str, claim: Mapping[str, Any]) -> str:
    found = "" if claim["found"] is None else f", found {_number(claim['found'])}"
    about = f"{claim['kind']} {_number(claim['claimed'])} of `{claim['instance']}`"
    return f"{who}: the {about}: {claim['result']}{found} ({CLAIMS[claim['result']]})"


def _blocks(summary: Mapping[str, Any]) -> Iterator[str]:
    failed = failures(summary)
    yield f"### Review: {_verdict(summary, failed)}\n"
    drawn = ", ".join(f"`{name}`" for name in summary["drawn"]) or "nothing"
    yield (
        f"Commit `{summary['head'][:12]}` on `{summary['base'][:12]}`, suite `{summary['suite']}`, drawn with seed "
        f"{summary['seed']}: {drawn}.\n"
    )
    if failed:
        yield from (f"- {line}" for line in _short(failed))
        yield ""
    for solver in summary["solvers"]:
        yield from _of_solver(solver)
    for instance in summary["instances"]:
        yield f"#### Instance `{instance['instance']}` (`{instance['track']}`)\n"
        yield f"Solved by {instance['solved_by']} of {instance['tried_by']} methods of the project.\n"
    if summary["records"]:
        yield "#### Records\n"
        yield from _table(("instance", "kind", "value", "result"), [_claim_row(line) for line in summary["records"]])
    aside = [file for file in summary["left"] if file["reason"] not in REFUSED]
    if aside:
        yield "#### Not reviewed here\n"
        yield from (f"- {_path(file['path'])}: {REASONS[file['reason']]}" for file in aside[:MOST_ROWS])
        if len(aside) > MOST_ROWS:
            yield f"- and {len(aside) - MOST_ROWS} more"
        yield ""


def _verdict(summary: Mapping[str, Any], failed: Sequence[str]) -> str:
    if summary["outcome"] == UNREVIEWED:
        return "nothing that is reviewed automatically"
    if summary["outcome"] == PASSED and not failed:
        return "no check failed"
    return f"{len(failed)} failed" if failed else "failed"


def _of_solver(solver: Mapping[str, Any]) -> Iterator[str]:
    yield f"#### {solver['kind'].capitalize()} `{solver['name']}` (`{solver['track']}`)\n"
    counts = {word: sum(check["passed"] == word for check in solver["checks"]) for word in (YES, NO, UNTESTED)}
    yield f"Checks: {counts[YES]} passed, {counts[NO]} failed, {counts[UNTESTED]} not tested.\n"
    if solver["uses"]:
        yield f"A reviewer may look first at where the file uses {', '.join(f'`{word}`' for word in solver['uses'])}.\n"
    if solver["ranking"]:
        yield "Standing:\n"
        shown = [row for row in solver["ranking"] if row["rank"] <= 5 or row["solver"] == solver["name"]]
        rows = [_rank_row(row, row["solver"] == solver["name"]) for row in shown]
        yield from _table(("rank", "method", "sum of scores", "solved", "division"), rows)
    if solver["profile"]:
        yield "Performance profile: the share of instances solved at a cost of at most a factor times the best known.\n"
        head = ("method", *(f"{ratio:g}" for ratio in RATIOS), "", "division")
        yield from _table(head, [_profile_row(row) for row in solver["profile"]])
    if solver["runs"]:
        yield "<details><summary>Runs</summary>\n"
        yield from _table(("instance", "status", "value", "best known", "score"), [_run_row(x) for x in solver["runs"]])
        yield "</details>\n"
    if solver["claims"]:
        count = sum(claim["result"] == "confirmed" for claim in solver["claims"])
        yield f"Claims of the submission: {count} of {len(solver['claims'])} confirmed.\n"


def _rank_row(row: Mapping[str, Any], proposed: bool) -> tuple[Any, ...]:
    name = f"**`{row['solver']}`**" if proposed else f"`{row['solver']}`"
    score, solved = _number(round(row["score_sum"], 3)), f"{row['solved']} of {row['instances']}"
    return row["rank"], name, score, solved, _division(row)


def _profile_row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    shares = (f"{share:.2f}" for share in row["shares"])
    return f"`{row['solver']}`", *shares, f"`{_bars(row['shares'])}`", _division(row)


def _run_row(run: Mapping[str, Any]) -> tuple[Any, ...]:
    numbers = (_number(run[key]) for key in ("value", "best_known", "score"))
    return f"`{run['instance']}`", run["status"], *numbers


def _division(row: Mapping[str, Any]) -> str:
    return f"`{row['division']}`" if row["division"] else ""


def _claim_row(claim: Mapping[str, Any]) -> tuple[Any, ...]:
    return f"`{claim['instance']}`", claim["kind"], _number(claim["claimed"]), claim["result"]


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(map(str, row))} |" for row in rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        yield f"\nand {len(rows) - MOST_ROWS} more"
    yield ""


def _short(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST_ROWS
    return [*lines[:MOST_ROWS], *([f"and {more} more"] if more > 0 else [])]


def _path(path: str) -> str:
    return path if path == UNUSUAL else f"`{path}`"


def _bars(shares: Sequence[float]) -> str:
    return "".join(BARS[round(min(max(share, 0.0), 1.0) * (len(BARS) - 1))] for share in shares)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.6g}"
