"""Performs one run under the referee: finds the method, sets limits, returns the result."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from shardmark.harness.campaign.cpus import core_sets, usable_cpus
from shardmark.harness.campaign.discover import SolverInfo, declared_in, discover
from shardmark.harness.campaign.jobs import Job, perform
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.campaign.settings import with_settings
from shardmark.harness.results.claims import contradicts
from shardmark.harness.results.grades import Evidence
from shardmark.harness.results.records import Record
from shardmark.harness.sandbox.backends.choice import choose, described
from shardmark.harness.sandbox.contract import DEFAULT_MEMORY_MIB, DEFAULT_TIMEOUT_S, ISOLATION, LIMITS, Limits
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.instances import InputError, catalog
from shardmark.live import Live, Show
from shardmark.outcomes import Cost, RunResult
from shardmark.problems import Known, Stated, nondefault_options
from shardmark.solvers.registry import declared_by

NO_BOUND = "reported no lower bound"
MAX_AMOUNT = 1e9  # seconds or MiB; excludes NaN and infinity as well


def method_of(method: Any, track: str, kind: str, paths: Any = ()) -> SolverInfo:
    """Return the solver or bound that a user names, or declares as a function; ``kind`` is "solver" or "bound"."""
    if isinstance(method, str):
        return find_method(discover(as_paths(paths)), track, method, kind)
    declared = [solver.name for solver in declared_by(method) if solver.track == track]
    file = inspect.getsourcefile(method) if declared else None
    if len(declared) != 1 or file is None or not os.path.isfile(file):
        expected = f"expected a name, or a function that declares one {kind} of {track} in a file"
        raise InputError(kind, repr(method), expected)
    infos = declared_in(file)
    if broken := [info.error for info in infos if info.error]:
        raise InputError(file, "", f"expected a solver file that can be imported ({broken[0]})")
    return find_method(infos, track, declared[0], kind)


def as_paths(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return a list of one or more paths."""
    return [Path(os.fsdecode(path)) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]


def find_method(infos: Sequence[SolverInfo], track: str, name: str, kind: str | None = None) -> SolverInfo:
    """Return the solver or bound of a track by name; InputError if it is unknown or cannot be imported.

    A bound is refused if ``kind`` is "solver", a solver that proves no bounds if it is "bound". Errors list what that
    ``kind`` takes; None takes both.
    """
    names = {info.name: info for info in infos if info.track == track}
    offered = sorted(known for known, other in names.items() if _serves(other, kind) and not other.error)
    if name not in names:
        others = sorted({info.track for info in infos if info.name == name})
        elsewhere = f"; this instance is of {track}, {name} is for {' and '.join(others)}" if others else ""
        broken = [f"; {info.file} cannot be imported ({info.error})" for info in names.values() if info.error]
        if catalog.near_miss(name, names) and not others:
            choice = catalog.named(kind or "solver", name, names)
        else:
            choice = f"one of {', '.join(offered)}{elsewhere}"
        expected = f"expected {choice}{''.join(broken)}"
        raise InputError(kind or "solver", repr(name), expected)
    info = names[name]
    if kind == "solver" and info.kind == "bound":
        expected = "expected a solver, found a bound method: run it with `bound`"
        raise InputError("solver", repr(name), expected)
    if info.error:
        raise InputError(info.file, "", f"expected a solver file that can be imported ({info.error})")
    if not _serves(info, kind):
        raise InputError("bound", repr(name), f"expected a method that proves bounds: {', '.join(offered)}")
    return info


def _serves(info: SolverInfo, kind: str | None) -> bool:
    """Return True for a method that a user may mean by a "solver" or a "bound"; None stands for both."""
    return info.kind == kind or kind is None or (kind == "bound" and info.proves_bounds)


def with_params(method: SolverInfo, params: Mapping[str, Any] | None) -> SolverInfo:
    """Return a method with values for its parameters, as texts; InputError if they are not a mapping."""
    if not isinstance(params, Mapping | None):
        raise InputError("params", "", f"expected values by name, such as {{'tries': 10}}, found {params!r}")
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (params or {}).items()
    }
    return with_settings(method, texts)


#: The backend for runs on this machine, chosen once per choice of limits and isolation.
backend = cache(partial(choose, keep=True))

#: The supervisors that the runs of a `series` share, by limits and isolation; None outside of one.
_shared: ContextVar[dict[tuple[str, str], Supervisor] | None] = ContextVar("shared", default=None)


@contextmanager
def series() -> Iterator[None]:
    """Let all runs inside share a supervisor: starting one takes longer than a small run."""
    if _shared.get() is not None:
        yield
        return
    started: dict[tuple[str, str], Supervisor] = {}
    token = _shared.set(started)
    try:
        yield
    finally:
        _shared.reset(token)
        for supervisor in started.values():
            supervisor.close()


def _supervisor(limits: str, isolation: str) -> AbstractContextManager[Supervisor]:
    """A supervisor for a run, which its series closes, or else the caller."""
    shared = _shared.get()
    if shared is None:
        return backend(limits, isolation).supervisor()
    if (limits, isolation) not in shared:
        shared[limits, isolation] = backend(limits, isolation).supervisor()
    return nullcontext(shared[limits, isolation])


def run(
    problem: Problem,
    method: SolverInfo,
    *,
    timeout: float | None = None,
    memory: float = DEFAULT_MEMORY_MIB,
    cores: int = 1,
    cpu: float | None = None,
    processes: int = Limits.processes,
    output_limit: float = Limits.output_mib,
    seed: int = 0,
    limits: str = "auto",
    isolation: str = "auto",
    progress: Show | None = None,
    known: Stated | None = None,
    certify: bool = False,
) -> Record:
    """Perform one run of a method; `shardmark.api.RunOptions` documents the keywords.

    The run ends early once a bound proves its cost optimal: its own bound, or one ``known`` before, with its source.
    The method itself is told nothing of the latter.
    """
    held = Limits(
        timeout_s=positive("timeout", timeout if timeout is not None else problem.timeout_s or DEFAULT_TIMEOUT_S),
        memory_mib=positive("memory", memory),
        cores=_cores(cores),
        cpu_s=None if cpu is None else positive("cpu", cpu),
        processes=whole("processes", processes),
        output_mib=positive("output_limit", output_limit),
    )
    job = Job(method, problem, whole("seed", seed, least=0), held, certify=certify)
    (cpus,) = core_sets(1, held.cores)
    live = Live(problem.instance, held.timeout_s, known, progress, certify)
    with _supervisor(one_of("limits", limits, LIMITS), one_of("isolation", isolation, ISOLATION)) as supervisor:
        return perform(job, supervisor, cpus, watch=live)


def _cores(value: Any) -> int:
    """Return a number of cores; InputError for more than this process may use."""
    usable = len(usable_cpus())
    if whole("cores", value) > usable:
        raise InputError("cores", "", f"expected at most {usable}, the number of usable CPUs, found {value}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """Return a positive number as a float; InputError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < MAX_AMOUNT:
        raise InputError(name, "", f"expected a positive number below {MAX_AMOUNT:g}, found {value!r}")
    return float(value)


def whole(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number, not below the least, as an int; InputError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InputError(name, "", f"expected a whole number, at least {least}, found {value!r}")
    return int(value)


def one_of(name: str, value: str, choices: Sequence[str]) -> str:
    """Return one of the choices; InputError for anything else."""
    if value not in choices:
        raise InputError(name, "", f"expected one of {', '.join(choices)}, found {value!r}")
    return value


def result_of(problem: Problem, row: Record, known: Known) -> RunResult:
    """Return a run as users see it, with its own lower bound."""
    best_known, best_from = known.best
    bound, source = known.greatest_bound(row.cost)
    return RunResult(
        instance=problem.id,
        track=row.track,
        options=nondefault_options(problem),
        method=row.solver,
        status=row.status,
        reason=row.reason,
        feasible=None if row.verified == "nothing" else row.cost is not None,
        cost=row.cost,
        lower_bound=row.lower_bound,
        bound_from="" if row.lower_bound is None else row.solver,
        solution=row.solution,
        incumbents=row.incumbents,
        bounds=row.bounds,
        wall_s=row.wall_s,
        cpu_s=row.cpu_s,
        peak_mib=row.peak_mib,
        limits=described(row.backend, row.enforced) if row.backend and row.enforced else "",
        log=row.log,
        best_known=best_known,
        best_from=best_from,
        contradiction=known.contradiction(row.cost),
        known_bound=None if source == "instance" else bound,
        known_from="" if source == "instance" else source,
        certificate=None if row.certificate is None else row.certificate.document,
        checked_bound=None if row.certificate is None else row.certificate.proven,
        grade=known.grade(row.track, row.lower_bound, row.cost, evidence_of(row)),
    )


def evidence_of(row: Record) -> Evidence | None:
    """Return what a run says about lower bounds; None if it says nothing."""
    if row.lower_bound is None:
        return None
    return Evidence(row.solver, row.lower_bound, None if row.certificate is None else row.certificate.proven)


def of_bound(row: Record) -> Record:
    """Give a reason to the run of a bound method that reported no bound."""
    return row if row.lower_bound is not None else replace(row, reason=row.reason or NO_BOUND)


def judged_against(row: Record, known: Known, cost: Cost | None = None) -> Record:
    """Mark a run as a contradiction if its bound is above the verified cost of a solution, given or of the records."""
    for verified, whose in ((cost, "the solution"), (known.verified, "the solution of the records")):
        if row.lower_bound is None or verified is None or row.status == "contradiction":
            continue
        if contradicts(row.lower_bound, verified, isinstance(verified, int)):
            words = f"claims the lower bound {row.lower_bound!r}, but {whose} has the cost {verified!r}"
            row = replace(row, status="contradiction", reason=words)
    return row
