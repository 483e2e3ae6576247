"""The summary of a campaign: which runs ended as expected, and which did not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from shardmark.cli.terminal import MAX_LINES, printable
from shardmark.harness.results.database import Ending
from shardmark.harness.sandbox.contract import KILLED, margin_s
from shardmark.instances import catalog

#: Kinds of ends that are expected, with their meaning.
EXPECTED = {
    "ok": "ended by themselves with a verified answer",
    "stopped": "reached their time limit with an answer, as anytime methods do",
    "late": "reached their time limit without an answer; more time may help",
    "unsolved": "ended without a feasible solution; more time may help",
    "declined": "were declined by the method",
    "trapped": "found nothing feasible on an instance that is designed as a trap",
}
UNANSWERED = ("late", "unsolved", "trapped")  # the leaderboard lists these under Failures as well
FAILED = "failed"
MANY_LATE = 0.1  # if a larger share of runs has no answer, the machine is suspected
FULL = 0.9  # a run that ends by itself after this share of its time limit has used it up


def kind(run: Ending) -> str:
    """Return the kind of a run's end: a key of `EXPECTED`, or `FAILED`."""
    if run.status in ("ok", "declined"):
        return run.status
    if run.status in ("timeout", "cpu"):
        return "stopped" if run.answered else "late"
    if run.status in ("infeasible", "none"):
        if run.instance in _traps():
            return "trapped"
        if run.wall_s >= FULL * (run.timeout_s - margin_s(run.timeout_s)):
            return "unsolved" if run.status == "infeasible" else "late"
    return FAILED


@cache
def _traps() -> Collection[str]:
    return {entry.id for entry in catalog.entries() if entry.trap}


def counts(runs: Collection[Ending]) -> dict[str, Any]:
    """Return the number of runs per kind of end, and one sentence per failed run."""
    kinds = Counter(map(kind, runs))
    failed = [
        f"{run.solver} on {run.instance}{f' seed {run.seed}' if run.seed else ''} ({run.track}): "
        f"{run.status}{f', {run.reason}' if run.reason else ''}"
        for run in runs
        if kind(run) == FAILED
    ]
    searched = [f"{run.solver} on {run.instance}" for run in runs if kind(run) == "unsolved"]
    number = {name: kinds[name] for name in (*EXPECTED, FAILED)} | {"killed": sum(x.status == KILLED for x in runs)}
    return {**number, "without_feasible": list(dict.fromkeys(searched)), "failures": failed}


def words(found: dict[str, Any]) -> str:
    """Return the summary for people."""
    number = f"{found['runs']} run{'' if found['runs'] == 1 else 's'}"
    left = found["runs"] - sum(found[name] for name in (*EXPECTED, FAILED))
    state = f"{left} of them left" if left else f"{found['started']} of them started now"
    lines = [f"{number}, {state}; results are in {found['results']}"]
    for name, meaning in EXPECTED.items():
        if found[name]:
            lines += [f"{found[name]:>6} {meaning}"]
            lines += _listed(found["without_feasible"]) if name == "unsolved" else []
    if found["late"] > MANY_LATE * found["runs"]:
        lines += ["       That is many: the machine may be slow or busy; try --jobs 1 or a longer --timeout."]
    if not found[FAILED]:
        unanswered = sum(found[name] for name in UNANSWERED)
        last = "The same command carries out the runs that are left." if left else _conclusion(unanswered)
        return "\n".join([*lines, last])
    lines += [f"{found[FAILED]:>6} FAILED, which is not expected:"]
    lines += _listed(found["failures"])
    again = "; the same command repeats those that were killed from outside" if found["killed"] else ""
    lines += [f"`shardmark results` shows every run; --retry-failed repeats those that failed{again}."]
    return "\n".join(lines)


def _conclusion(unanswered: int) -> str:
    """Return the last line of a campaign without failed runs; it agrees with the leaderboard's page of failures."""
    if not unanswered:
        return "All runs ended as expected."
    number = "1 run" if unanswered == 1 else f"{unanswered:,} runs"
    return f"No run ended unexpectedly. The leaderboard lists {number} without an answer under Failures."


def _listed(sentences: Sequence[str]) -> list[str]:
    more = len(sentences) - MAX_LINES
    return [f"       {printable(words)}" for words in sentences[:MAX_LINES]] + [f"       and {more:,} more"] * (
        more > 0
    )
