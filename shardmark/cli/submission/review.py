"""The review of a branch: everything that it adds is run and verified by this checkout's code, in isolation."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from shardmark.cli.submission import summary
from shardmark.cli.submission.changes import SOLVER, SUBMISSION, Added, Changes, Left, changes, take, uses
from shardmark.cli.submission.conformance import Finding, examine
from shardmark.cli.submission.instance_entries import Proposed, judge_instance, proposed_instances
from shardmark.cli.submission.markdown import failures
from shardmark.cli.submission.proposal import FORMAT, home_of
from shardmark.cli.submission.record_lines import examine_records
from shardmark.cli.submission.standing import Standing, carry_out, job_of, standing_in
from shardmark.cli.submission.summary import NO, YES
from shardmark.harness.campaign.cpus import usable_cpus
from shardmark.harness.campaign.discover import SolverInfo, declared_in, discover
from shardmark.harness.campaign.jobs import perform
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.claims import contradicts
from shardmark.harness.results.database import Store
from shardmark.harness.results.judgement import FAULTS
from shardmark.harness.results.ranking import Tables, tables
from shardmark.harness.sandbox.backends.choice import Backend, choose
from shardmark.harness.sandbox.backends.namespaces import isolation_error_in_subprocess
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.instances import InputError, catalog
from shardmark.instances.files.jsonfile import decode, encode, parse_json
from shardmark.solvers.registry import NAME

POOL = "standard"  # suite from which instances are drawn
#: Ends of a run that no solver should have on an instance that it accepts.
UNACCEPTABLE = (*FAULTS, "infeasible", "misclaim", "contradiction", "memory", "cpu", "processes", "output")
#: A cost or bound counts as found again within this share of it: machines differ, and anytime methods with them.
REPRODUCED = 0.01
RIVALS = 3  # other solvers shown in a performance profile


@dataclass
class Candidate:
    """A solver that a branch adds, with the results of its checks and of its runs."""

    info: SolverInfo
    file: Added
    findings: list[Finding] = field(default_factory=list)
    stand: Standing | None = None
    profile: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """True if a check failed."""
        return any(finding.passed == NO for finding in self.findings)

    def find(self, check: str, passed: str, detail: str) -> None:
        """Note the result of a check."""
        self.findings.append(Finding(check, self.info.name, passed, detail))


@dataclass(frozen=True)
class Review:
    """The summary of a review, see `summary`, and for people a sentence on everything that failed."""

    summary: dict[str, Any]
    details: Sequence[str]


def review(
    root: Path,
    branch: str,
    suite: str,
    sample: int,
    seed: int,
    limits: str,
    parallel: int,
    say: Callable[[str], None],
) -> Review:
    """Review what a branch adds to the checkout at ``root``, whose solvers run beside it.

    Solvers run on a suite and on ``sample`` instances of each of their tracks drawn from the suite ``standard``; the
    draw depends on ``seed`` alone. ``limits`` names the backend of runs, see `choose`. InputError if the branch adds
    nothing, or if runs and imports cannot be isolated here.
    """
    found = changes(root, branch)
    backend = choose(limits)
    if obstacle := backend.warning or isolation_error_in_subprocess():
        raise InputError("review", "", f"expected a machine that isolates runs and imports ({obstacle})")
    with tempfile.TemporaryDirectory(prefix="shardmark-review-") as folder:
        reviewer = _Reviewer(root, found, Path(folder).resolve(), backend, say)
        return reviewer.review(suite, sample, seed, parallel)


def drawn(suite: str, track: str, count: int, seed: int) -> list[catalog.Entry]:
    """Return instances of a track that a seed draws from `POOL`, none of them in the suite or among the tiny ones."""
    known = {entry.id for name in (suite, "tiny") for entry in catalog.suite(name)}
    pool = [entry for entry in catalog.suite(POOL) if entry.track == track and entry.id not in known]
    return sorted(pool, key=lambda entry: hashlib.sha256(f"{seed} {entry.id}".encode()).digest())[:count]


class _Reviewer:
    """One review; ``scratch`` is a folder for the files that are taken over."""

    def __init__(self, root: Path, found: Changes, scratch: Path, backend: Backend, say: Callable[[str], None]) -> None:
        self.found, self.scratch, self.backend, self.say = found, scratch, backend, say
        self.left = list(found.left)
        self.details: list[str] = []
        added = {str(root / file.path) for file in found.of(SOLVER)}  # not the project's, even if they lie there
        self.own = [info for info in discover() if info.file not in added]

    def review(self, suite: str, sample: int, seed: int, parallel: int) -> Review:
        candidates = self._candidates()
        with self.backend.supervisor() as supervisor:
            for candidate in candidates:
                others = [*self.own, *(other.info for other in candidates if other is not candidate)]
                self._examine(candidate, others, supervisor)
        self._claimed(candidates)
        instances, left = proposed_instances(self.found, self.scratch)
        self.left += left
        running = [candidate for candidate in candidates if not candidate.failed]
        tracks = sorted({candidate.info.track for candidate in running})
        draw = [entry for track in tracks for entry in drawn(suite, track, sample, seed)]
        entries = [entry for entry in catalog.suite(suite) if entry.track in tracks]
        problems = [Problem.of(entry, catalog.locate(entry)) for entry in (*entries, *draw)]
        rows = self._run(problems, running, instances, parallel)
        records = examine_records(self.found, self.scratch, [*self.own, *(x.info for x in running)], self.backend)
        self.left += records.left
        self.details += records.details
        for candidate in candidates:
            lines = (f"{f.solver}: {f.check}: {f.detail}" for f in candidate.findings if f.passed == NO)
            self.details += lines
        document = {
            "format": summary.FORMAT,
            "base": self.found.base,
            "head": self.found.head,
            "seed": seed,
            "suite": suite,
            "drawn": [entry.id for entry in draw],
            "outcome": summary.UNREVIEWED,
            "taken": [summary.shown_path(file.path.encode()) for file in self.found.added],
            "left": [_left(file) for file in self.left],
            "solvers": [_solver(candidate) for candidate in candidates],
            "instances": rows,
            "records": records.claims,
        }
        if failures(document):
            document["outcome"] = summary.FAILED
        elif candidates or rows or records.claims:
            document["outcome"] = summary.PASSED
        summary.require(document)
        if len(encode(document)) > summary.MOST_BYTES:
            raise InputError("review", "", f"expected a branch whose summary has at most {summary.MOST_BYTES} bytes")
        return Review(document, self.details)

    def _candidates(self) -> list[Candidate]:
        """Import each added file, in a folder of its own: it sees no other file of the branch."""
        found = []
        for count, file in enumerate(self.found.of(SOLVER)):
            infos = declared_in(take(file, self.scratch / str(count)))
            if not infos:
                self.left.append(Left(file.path.encode(), "outside"))
            if any(len(info.name) > summary.LONGEST_NAME for info in infos):
                self.left.append(Left(file.path.encode(), "name"))
                continue
            found += [Candidate(info, file) for info in infos]
        return found

    def _examine(self, candidate: Candidate, others: Sequence[SolverInfo], supervisor: Supervisor) -> None:
        """Perform the checks of `shardmark submit`, and compare what a file declares with its place."""
        info, path = candidate.info, candidate.file.path
        candidate.findings += examine(info, others, supervisor, self.say)
        if not info.error:
            home = home_of(info, Path(path).name)
            candidate.find("is in the folder of its track", YES if home == path else NO, f"expected {home}")

    def _run(
        self, problems: Sequence[Problem], running: Sequence[Candidate], instances: Sequence[Proposed], parallel: int
    ) -> list[dict[str, Any]]:
        """Run the candidates beside the project's methods; return the rows of proposed instances."""
        new = [proposed.problem for proposed in instances if proposed.problem is not None]
        contenders = [*self.own, *(candidate.info for candidate in running)]
        jobs = [job_of(x, problem) for problem in problems for x in contenders if x.track == problem.track]
        solvers = [info for info in self.own if info.kind == "solver"]
        jobs += [job_of(x, problem) for problem in new for x in solvers if x.track == problem.track]
        with closing(Store.open(self.scratch / "results", create=True)) as store:
            if jobs:
                carry_out(jobs, store, self.backend, parallel)
            found = tables(store, {problem.id for problem in problems})
            for candidate in running:
                self._judge(candidate, found)
            found = tables(store, {problem.id for problem in new})
            rows = [judge_instance(proposed, found) for proposed in instances]
        self.details += [detail for proposed in instances for detail in proposed.details]
        return rows

    def _judge(self, candidate: Candidate, found: Tables) -> None:
        """Check the runs of a candidate, and compare it with others."""
        info = candidate.info
        mine = (pl.col("track") == info.track) & (pl.col("solver") == info.name)
        candidate.stand = standing_in(found, info)
        bad = found.runs.filter(mine & pl.col("status").is_in(UNACCEPTABLE))
        for row in bad.iter_rows(named=True):
            candidate.find(f"runs end well {row['instance']}", NO, f"{row['status']}: {row['reason']}")
        refuted = found.contradictions.filter(mine)
        for row in refuted.iter_rows(named=True):
            words = f"contradiction: claims the lower bound {row['bound_exact']}, but {row['against']} has the cost"
            candidate.find(f"bounds hold {row['instance']}", NO, f"{words} {row['cost_exact']}")
        if bad.is_empty():
            candidate.find("runs end well", YES, f"{len(candidate.stand.instances)} runs")
        if refuted.is_empty():
            candidate.find("bounds hold", YES, "no bound is above a known cost")
        candidate.profile = _profiles(found, info, candidate.stand)
        with self.backend.supervisor() as supervisor:
            for claim in candidate.claims:
                self._confirm(claim, candidate, lambda problem: perform(job_of(info, problem), supervisor, _one_cpu()))

    def _claimed(self, candidates: Sequence[Candidate]) -> None:
        """Read what submissions claim of their solvers."""
        for file in self.found.of(SUBMISSION):
            try:
                document = parse_json(decode(file.content, file.path), file.path)
                claims = {solver["name"]: _claims(solver) for solver in document["solvers"]}
                if document["format"] != FORMAT:
                    raise ValueError("format")
                readable = True
            except (AttributeError, KeyError, TypeError, ValueError):  # one of them for each JSON of another form
                claims, readable = {}, False
            concerned = [x for x in candidates if x.info.name in claims] if readable else list(candidates)
            if not concerned:
                self.left.append(Left(file.path.encode(), "outside"))
            for candidate in concerned:
                mine = [*candidate.claims, *claims.get(candidate.info.name, ())]
                once = len({(claim["instance"], claim["kind"]) for claim in mine}) == len(mine)  # each may be run again
                candidate.find("submission is readable", YES if readable and once else NO, file.path)
                candidate.claims = mine if once else candidate.claims

    def _confirm(self, claim: dict[str, Any], candidate: Candidate, again: Callable[[Problem], Any]) -> None:
        """Compare a claim with the candidate's run, and with a second one if the first did not reach it."""
        key = "cost" if claim["kind"] == "cost" else "bound"
        assert candidate.stand is not None
        runs = {row["instance"]: row.get(key) for row in candidate.stand.instances}
        if claim["instance"] not in runs:
            return
        found = runs[claim["instance"]]
        if not _reached(claim, found):
            entry = catalog.find(claim["instance"])
            row = again(Problem.of(entry, catalog.locate(entry)))
            second = row.cost if key == "cost" else row.lower_bound
            found = second if found is None or _reached(claim, second) else found
        claim["found"] = found
        claim["result"] = "confirmed" if _reached(claim, found) else "not confirmed"


def _one_cpu() -> list[int]:
    return usable_cpus()[:1]


def _claims(solver: Any) -> list[dict[str, Any]]:
    """Return the costs and bounds that a submission claims of a solver; ValueError or TypeError if malformed."""
    rows = []
    for row in solver["instances"]:
        for kind, key in (("cost", "cost"), ("bound", "bound")):
            value = row.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= summary.LARGEST:
                raise ValueError(key)
            if not NAME.fullmatch(row["instance"]) or len(row["instance"]) > summary.LONGEST_NAME:
                raise ValueError("instance")
            claim = {"instance": row["instance"], "kind": kind, "claimed": value, "found": None}
            rows.append({**claim, "result": "claimed"})
    return rows


def _reached(claim: dict[str, Any], found: int | float | None) -> bool:
    """Return True if a run is as good as a claim, within `REPRODUCED`."""
    if found is None:
        return False
    slack = REPRODUCED * abs(claim["claimed"])
    low, high = (found, claim["claimed"]) if claim["kind"] == "cost" else (claim["claimed"], found)
    return not contradicts(low - slack, high, False)


def _profiles(found: Tables, info: SolverInfo, stand: Standing) -> list[dict[str, Any]]:
    """Return the performance profiles of a solver and of the best others, one row each per division."""
    rows = []
    for division in dict.fromkeys(row["division"] for row in stand.ranking):
        ranked = [row["solver"] for row in stand.ranking if row["division"] == division]
        rivals = [name for name in ranked if name != info.name][:RIVALS]
        for name in (info.name, *rivals):
            steps = found.profiles.filter(
                (pl.col("track") == info.track) & (pl.col("division") == division) & (pl.col("solver") == name)
            )
            if steps.is_empty():
                continue
            reached = [steps.filter(pl.col("ratio") <= ratio * (1 + 1e-9))["share"].max() for ratio in summary.RATIOS]
            rows.append({"division": division, "solver": name, "shares": [share or 0.0 for share in reached]})
    return rows


def _left(file: Left) -> dict[str, str]:
    return {"path": summary.shown_path(file.path), "reason": file.reason}


def _solver(candidate: Candidate) -> dict[str, Any]:
    """Return a solver's part of the summary."""
    info, stand = candidate.info, candidate.stand
    value = "bound" if info.kind == "bound" else "cost"
    return {
        "name": info.name,
        "track": info.track,
        "kind": info.kind,
        "uses": uses(candidate.file.content),
        "checks": [_check(finding) for finding in candidate.findings],
        "runs": [
            {"instance": row["instance"], "status": row["status"], "value": row[value]}
            | {key: row[key] for key in ("best_known", "score")}
            for row in (stand.instances if stand else ())
        ],
        "ranking": [
            {key: row[key] for key in ("division", "rank", "solver", "solved", "instances")}
            | {"score_sum": row["score_sum"] or 0.0}
            for row in (stand.ranking if stand else ())
        ],
        "profile": candidate.profile,
        "claims": candidate.claims,
    }


def _check(finding: Finding) -> dict[str, Any]:
    """Return a finding without its sentence: the check, the instance that it names, and the status of the run."""
    check = next(name for name in summary.CHECKS if re.match(rf"{name}\b", finding.check))
    instance = finding.check.removeprefix(check).strip() or None
    words = (word for word in finding.detail.split(": ")[:2] if word in summary.STATUSES)
    status = next(words, None) if finding.passed == NO else None
    return {"check": check, "instance": instance, "passed": finding.passed, "status": status}
