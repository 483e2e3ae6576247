"""Jobs: one run each, given by solver, instance, seed and limits."""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from shardmark.harness.campaign.discover import SolverInfo
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.claims import contradicts
from shardmark.harness.results.judgement import Reports, merge
from shardmark.harness.results.records import Certificate, Record
from shardmark.harness.sandbox.contract import Limits, Order, Outcome
from shardmark.harness.sandbox.link import Watch
from shardmark.harness.sandbox.supervisor import Supervisor


@dataclass(frozen=True)
class Job:
    """A run to carry out; ``hidden`` is a folder that an isolated run cannot see, None for none.

    ``certify`` asks for certificates of bounds.
    """

    solver: SolverInfo
    problem: Problem
    seed: int
    limits: Limits
    hidden: Path | None = None
    certify: bool = False

    @cached_property
    def id(self) -> str:
        """SHA-256 of the definition; jobs with equal definitions are the same, even if their files have other names."""
        definition: dict[str, Any] = {
            "checksum": self.problem.checksum,
            "solver": [self.solver.track, self.solver.name, self.solver.hash, dict(self.solver.params)],
            "seed": self.seed,
            "limits": [float(value) for value in astuple(replace(self.limits, cpu_s=self.limits.cpu_limit_s))],
        }
        if self.certify:
            definition["certify"] = True
        return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()

    def order(self, cpus: Sequence[int] = ()) -> Order:
        """Return the order for a supervisor to carry it out on these CPUs."""
        return Order(
            track=self.solver.track,
            instance=str(self.problem.path.resolve()),
            checksum=self.problem.content_hash,
            options=dict(self.problem.options),
            solver=self.solver.declared,
            file=self.solver.file,
            seed=self.seed,
            limits=self.limits,
            cpus=tuple(cpus),
            command=self.solver.command,
            hidden="" if self.hidden is None else str(self.hidden.resolve()),
            settings=dict(self.solver.settings),
            certify=self.certify,
        )


def perform(
    job: Job,
    supervisor: Supervisor,
    cpus: Sequence[int] = (),
    cancel: threading.Event | None = None,
    watch: Watch | None = None,
) -> Record:
    """Carry out one run and judge it; raise Cancelled, or InputError if the instance cannot be read."""
    instance, started = job.problem.instance, utc_now("milliseconds")
    return judge(job, instance, started, not_importable(job) or supervisor.run(job.order(cpus), cancel, watch))


def judge(job: Job, instance: Any, started: str, outcome: Outcome, co_runners: int = 0) -> Record:
    """Return the record of a run on ``instance`` that has ended; ``started`` is UTC, ISO 8601.

    If the job asks for certificates, the last one is checked.
    """
    solver, problem, limits = job.solver, job.problem, job.limits
    external = bool(solver.command)
    sent = Reports(instance, outcome)
    stop, status, reason = merge(solver.kind, limits, outcome, sent, external)
    certificate = checked(sent, problem) if job.certify else None
    return Record(
        id=job.id,
        track=solver.track,
        instance=problem.id,
        checksum=problem.checksum,
        solver=solver.name,
        kind=solver.kind,
        solver_hash=solver.hash,
        seed=job.seed,
        timeout_s=limits.timeout_s,
        memory_mib=limits.memory_mib,
        cores=limits.cores,
        started=started,
        stop=stop,
        status=status,
        reason=reason,
        cost=sent.cost,
        lower_bound=known_bound(sent.lower_bound, certificate),
        wall_s=outcome.wall_s,
        cpu_s=outcome.cpu_s,
        peak_mib=max(outcome.peak_mib, sent.peak_mib),
        solution=sent.solution,
        log=sent.annotated(outcome.log),
        cpu_limit_s=limits.cpu_limit_s,
        processes=limits.processes,
        output_mib=limits.output_mib,
        backend=outcome.backend,
        enforced=outcome.enforced,
        co_runners=co_runners,
        host=outcome.host,
        claimed=sent.claimed(outcome, external),
        verified=sent.verified,
        incumbents=tuple(sent.incumbents),
        bounds=tuple(sent.bounds),
        certificate=certificate,
    )


def checked(sent: Reports, problem: Problem) -> Certificate | None:
    """Return the last certificate that a run sent, checked; the run's log tells if it does not prove its bound."""
    document = sent.certificate(problem.checksum)
    if document is None:
        return None
    began = time.monotonic()
    found = problem.check_certificate(document)
    if found.reason:
        sent.remark(f"the certificate: {found.reason}")
    return Certificate(document, found.proven_number, time.monotonic() - began, found.reason)


def known_bound(bound: int | float | None, certificate: Certificate | None) -> int | float | None:
    """Return a run's bound, or what its certificate proves: if that is more, or less by rounding (1e-9 of a float)."""
    proven = None if certificate is None else certificate.proven
    if bound is None or proven is None:
        return bound
    if proven > bound:
        return math.floor(proven) if isinstance(bound, int) else proven
    return proven if isinstance(bound, float) and not contradicts(bound, proven, False) else bound


def not_importable(job: Job) -> Outcome | None:
    """Return the outcome of a job whose solver cannot be imported, None if it can."""
    return Outcome("import", f"its file cannot be imported: {job.solver.error}") if job.solver.error else None


def utc_now(precision: str = "seconds") -> str:
    """Return the current time as it is stored: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec=precision)
