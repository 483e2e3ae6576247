"""The checks of ``shardmark submit``, which a solver must pass before it is proposed."""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardmark.cli import terminal
from shardmark.cli.new_solver import UNCHANGED
from shardmark.cli.submission.busy import BusyThreads
from shardmark.cli.submission.summary import NO, UNTESTED, YES
from shardmark.harness.campaign.cpus import usable_cpus
from shardmark.harness.campaign.discover import SolverInfo, declared_in, discover, from_command
from shardmark.harness.campaign.jobs import Job, perform
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.claims import contradicts
from shardmark.harness.results.judgement import FAULTS
from shardmark.harness.results.records import Record, number
from shardmark.harness.sandbox.backends.choice import choose
from shardmark.harness.sandbox.contract import CAMPAIGN_TIMEOUT_S, Limits, margin_s
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.instances import InputError, catalog

MEMORY_MIB = 1024.0
DEADLINE_S = 2.0
#: A run with more CPU time than CPU_SHARE * wall + CPU_S used a second core. One with less than CPU_S hardly did more
#: than start, and its busy threads say nothing: a process that starts another keeps running while CPUs are scarce.
CPU_SHARE, CPU_S = 1.1, 0.2
MAX_BUSY = 1.25  # mean number of threads running or waiting for a core; two overlap when one hands over to another
MAX_DESCRIPTION = 160

#: Ends of a run that kept to its limits, with nothing that counts.
WITHOUT_RESULT = ("none", "infeasible", "misclaim", "contradiction")


@dataclass(frozen=True)
class Finding:
    """One line of the report; ``passed`` is "yes", "no" or "not tested", ``detail`` says what was observed."""

    check: str
    solver: str
    passed: str
    detail: str


def submit(path: str | Path, track: str | None = None, say: Callable[[str], None] = print) -> list[Finding]:
    """Check every solver that a Python or TOML file declares, or a program, which needs a ``track``.

    ``say`` gets a line before each run. InputError for a file that declares nothing to check.
    """
    found = candidates(Path(path), track)
    others = [info for info in discover() if Path(info.file) != Path(path).resolve()]
    backend = choose()
    if backend.warning:
        say(f"warning: {backend.warning}")
    with backend.supervisor() as supervisor:
        findings = [finding for info in found for finding in examine(info, others, supervisor, say)]
    return list(dict.fromkeys(findings))  # a file that cannot be imported has the same finding for every track


def candidates(path: Path, track: str | None) -> list[SolverInfo]:
    """Return the solvers that a file declares, or the program; InputError if there is none."""
    if path.is_dir():
        raise InputError(path, "", "expected a file that declares solvers, or a program, found a folder")
    if path.suffix not in (".py", ".toml") and os.path.isfile(path):
        if track is None:
            raise InputError(path, "", "expected --track for a program, or a Python or TOML file that declares one")
        return [from_command(shlex.quote(str(path.resolve())), track)]
    found = [info for info in declared_in(path) if track in (None, info.track)]
    if not found:
        expected = f"expected at least one solver{'' if track is None else f' of the track {track}'}"
        raise InputError(path, "", f"{expected}, found none")
    return found


def examine(
    info: SolverInfo, others: Sequence[SolverInfo], supervisor: Supervisor, say: Callable[[str], None]
) -> Iterator[Finding]:
    """Perform all checks of one solver in turn; a solver that cannot be imported fails the first and skips the rest."""
    first = "can be started" if info.command else "can be imported"
    if info.error:
        yield Finding(first, info.name, NO, info.error)
        return
    yield Finding(first, info.name, YES, info.file)
    yield from declares(info, others)
    trial = Trial(info, supervisor, say)
    yield from trial.solves()
    yield trial.repeats()
    yield from trial.obeys()


def declares(info: SolverInfo, others: Sequence[SolverInfo]) -> Iterator[Finding]:
    """Check that a solver has an unused name, a description and a source."""
    taken = [other.file for other in others if (other.track, other.name) == (info.track, info.name)]
    detail = f"taken by {taken[0]}" if taken else f"no other solver or bound of {info.track} has it"
    yield Finding("name is free", info.name, NO if taken else YES, detail)
    if (left := _template_words_left(info)) is not None:
        yield Finding(
            "module docstring", info.name, NO, f"expected your own words, found those of the template: {left!r}"
        )
    for key, text in (("description", info.description.strip()), ("source", info.source.strip())):
        if info.command and Path(info.file).suffix != ".toml":
            yield Finding(key, info.name, UNTESTED, f"a TOML file that declares the program can give a {key}")
        elif not text:
            yield Finding(key, info.name, NO, f"expected a {key}, found none")
        elif text in UNCHANGED[key]:
            yield Finding(key, info.name, NO, f"expected your own {key}, found that of the template: {text!r}")
        elif "\n" in text or len(text) > MAX_DESCRIPTION:
            yield Finding(key, info.name, NO, f"expected one line of at most {MAX_DESCRIPTION} characters")
        else:
            yield Finding(key, info.name, YES, text)


def _template_words_left(info: SolverInfo) -> str | None:
    """Return the first line of a Python file's docstring if it is still the template's, else None."""
    if info.command or not info.file.endswith(".py"):
        return None
    docstring = ast.get_docstring(ast.parse(Path(info.file).read_text())) or ""
    line = docstring.partition("\n")[0]
    return line if line.lower().endswith(UNCHANGED["module docstring"]) else None


class Trial:
    """One solver on the small instances of its track."""

    def __init__(self, info: SolverInfo, supervisor: Supervisor, say: Callable[[str], None]) -> None:
        self.info = info
        self.supervisor = supervisor
        self.say = say
        self.first: list[tuple[Problem, Record]] = []

    def run(self, problem: Problem, limits: Limits, cpus: Sequence[int] = ()) -> Record:
        """Perform one run; ``run.cores`` is 1."""
        self.say(f"{self.info.name} on {problem.id}")
        return perform(Job(self.info, problem, 0, limits), self.supervisor, cpus)

    def run_tiny(self, problem: Problem) -> Record:
        """One run on a tiny instance."""
        return self.run(problem, Limits(problem.timeout_s or CAMPAIGN_TIMEOUT_S, MEMORY_MIB), usable_cpus()[:1])

    def solves(self) -> Iterator[Finding]:
        """Check that the solver solves the tiny instances of its track, or declines them."""
        for problem in problems("tiny", self.info.track):
            row = self.run_tiny(problem)
            self.first.append((problem, row))
            yield Finding(_task(self.info, problem), self.info.name, *_worth(row, problem))
        if all(row.status == "declined" for _, row in self.first):
            yield Finding("accepts an instance", self.info.name, NO, "it declined every tiny instance of its track")

    def repeats(self) -> Finding:
        """Check that one seed gives one result, unless time ran out or the solver is declared not deterministic."""
        check = "is repeatable"
        if not self.info.deterministic:
            return Finding(check, self.info.name, UNTESTED, "declared with deterministic = false")
        if all(row.status != "ok" for _, row in self.first):
            return Finding(check, self.info.name, UNTESTED, "no run on a tiny instance succeeded")
        same = []
        for problem, row in self.first:
            if row.status != "ok":
                continue
            again = self.run_tiny(problem)
            if _result(row) == _result(again):
                same.append(problem.id)
            elif not (_out_of_time(row) or _out_of_time(again)):
                detail = f"two runs on {problem.id} with seed 0 differ: {_words(row, repr)}, then {_words(again, repr)}"
                return Finding(check, self.info.name, NO, f"{detail}; fix this or declare deterministic = false")
        if same:
            return Finding(check, self.info.name, YES, f"two runs with seed 0 agree on {', '.join(same)}")
        return Finding(check, self.info.name, UNTESTED, "every successful run used all its time")

    def obeys(self) -> Iterator[Finding]:
        """Check that the solver keeps its limits of time, cores and memory on an instance that could take longer."""
        (problem, *_) = problems("deadline", self.info.track)
        row, busy = self.watched(problem)
        name = self.info.name
        if row.status in WITHOUT_RESULT:
            yield Finding(_task(self.info, problem), name, NO, f"{row.status}: {row.reason}")
        yield Finding("meets the deadline", name, *_in_time(row, problem))
        yield Finding("stays on one core", name, *_on_one_core(row, busy))
        rows = [row, *(row for _, row in self.first)]
        peak = max(row.peak_mib for row in rows)
        kept = all(row.status != "memory" for row in rows)
        detail = f"its runs used up to {peak:.0f} MiB, the limit is {MEMORY_MIB:.0f} MiB"
        yield Finding("stays within memory", name, YES if kept else NO, detail)

    def watched(self, problem: Problem) -> tuple[Record, float | None]:
        """Run without pinning, so that a second core would show; also return the mean number of busy threads."""
        limits = Limits(
            DEADLINE_S, MEMORY_MIB, cpu_s=len(usable_cpus()) * DEADLINE_S + 1
        )  # out of reach: `_on_one_core` judges CPU time
        with BusyThreads() as busy:
            row = self.run(problem, limits)
        return row, busy.mean


def problems(suite: str, track: str) -> list[Problem]:
    """The instances of a track in one of the suites of this check, ``tiny`` and ``deadline``."""
    return [Problem.of(entry, catalog.locate(entry)) for entry in catalog.suite(suite) if entry.track == track]


def _task(info: SolverInfo, problem: Problem) -> str:
    return f"{'solves' if info.kind == 'solver' else 'bounds'} {problem.id}"


def _worth(row: Record, problem: Problem) -> tuple[str, str]:
    """Judge a run on a tiny instance: did it pass, and how did it end?"""
    if row.status == "declined":
        return YES, f"declined: {row.reason}"
    if row.status != "ok":
        return NO, f"{row.status}: {row.reason}"
    published = problem.published.get("best_cost")
    if published is None:
        return YES, _words(row)
    optimum = number(published)
    if row.lower_bound is not None and contradicts(row.lower_bound, optimum, isinstance(row.cost, int)):
        return NO, f"contradiction: claims the lower bound {row.lower_bound}, the optimum is {published}"
    return YES, f"{_words(row)}, the optimum is {terminal.text(optimum)}"


def _in_time(row: Record, problem: Problem) -> tuple[str, str]:
    """Check that a run ended by itself before its limit, with something to show."""
    if row.stop == "timeout":
        return NO, f"{problem.id}: {row.reason}; it has to return before run.deadline"
    if row.status in WITHOUT_RESULT:
        return UNTESTED, f"{problem.id}: no {'feasible solution' if row.kind == 'solver' else 'valid bound'}"
    if row.status not in ("ok", "declined"):
        return NO, f"{problem.id}: {row.status}: {row.reason}"
    return YES, f"{problem.id}: {_words(row) or 'declined'} after {row.wall_s:.2f} s, the limit is {DEADLINE_S:g} s"


def _on_one_core(row: Record, busy: float | None) -> tuple[str, str]:
    """Check that a run used one of the cores it could reach; ``busy``: its mean number of busy threads, if known."""
    seen = f"{row.cpu_s:.2f} s of CPU time in {row.wall_s:.2f} s"
    if row.status in FAULTS:
        return UNTESTED, f"the run above failed after {seen}"
    if row.cpu_s > CPU_SHARE * row.wall_s + CPU_S:
        return NO, f"{seen}, which takes more than one core"
    if busy is not None and busy > MAX_BUSY:
        if row.cpu_s <= CPU_S:
            return UNTESTED, f"{seen}, too little to tell how many threads were busy"
        return NO, f"{busy:.1f} threads on average ran or waited for a core, expected one thread at a time"
    return YES, f"{seen}, one thread at a time"


def _result(row: Record) -> tuple[object, ...]:
    return row.status, row.cost, row.lower_bound, row.solution


def _words(row: Record, shown: Callable[[object], str] = terminal.text) -> str:
    """Cost and bound of a run."""
    found = (("cost", row.cost), ("bound", row.lower_bound))
    return ", ".join(f"{name} {shown(value)}" for name, value in found if value is not None)


def _out_of_time(row: Record) -> bool:
    """Return True if its own deadline may have cut a run short."""
    return row.wall_s > 0.9 * (row.timeout_s - margin_s(row.timeout_s))


def verdict(findings: Sequence[Finding], path: str | Path) -> str:
    """Return a sentence that says what to do next."""
    failed = sum(finding.passed == NO for finding in findings)
    if failed:
        return f"{failed} of {len(findings)} checks failed: fix them, then submit {path} again."
    if Path(path).suffix in (".py", ".toml"):
        return f"No check failed: `shardmark submit {path} --branch` prepares a branch for a pull request."
    return "No check failed: declare the program in a TOML file, and submit that with --branch."
