"""List the runs of a campaign or a reproduction, and carry out the missing ones."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardmark.cli import summary
from shardmark.cli.options import Answer, check_settings, given_options
from shardmark.cli.terminal import Progress, printable
from shardmark.harness.campaign import host, yardstick
from shardmark.harness.campaign.discover import SolverInfo, discover, from_command
from shardmark.harness.campaign.jobs import Job, utc_now
from shardmark.harness.campaign.local_executor import LocalExecutor
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.campaign.queue import Executor, campaign
from shardmark.harness.campaign.settings import by_name, with_settings
from shardmark.harness.results.database import Store, exclusive
from shardmark.harness.sandbox.backends.choice import Backend, choose
from shardmark.harness.sandbox.contract import CAMPAIGN_TIMEOUT_S, KILLED, Limits
from shardmark.instances import InputError, catalog
from shardmark.problems import find_problem
from shardmark.runs import find_method

if TYPE_CHECKING:
    from shardmark.leaderboard.reproductions import Cell


def matrix(options: argparse.Namespace, timeouts: Mapping[str, float] | None = None) -> list[Job]:
    """All jobs of a campaign, grouped by instance; bounds run with one seed only.

    ``timeouts`` are time limits by the checksum of an instance, which count unless the command line sets one.
    """
    given = given_options(options)
    if options.instance:
        problems = [find_problem(reference, options.track, given) for reference in options.instance]
    else:
        suite = [entry for entry in catalog.suite(options.suite) if options.track in (None, entry.track)]
        if not suite:
            raise InputError("run", "--track", f"expected a track of the suite {options.suite}, found {options.track}")
        problems = [find_problem(entry.id, None, given) for entry in suite]
    infos = contenders(options, dict.fromkeys(problem.track or problem.instance.track for problem in problems))
    jobs: dict[str, Job] = {}
    for problem in problems:
        track = problem.track or problem.instance.track
        for info in infos:
            if info.track != track:
                continue
            seeds = range(options.seeds if info.kind == "solver" else 1)
            limits = limits_of_campaign(options, problem, timeouts or {})
            for seed in seeds:
                job = Job(info, problem, seed, limits, options.results, certify=options.certificates)
                jobs.setdefault(job.id, job)  # an instance named twice is run once
    if not jobs:
        raise InputError("run", "", "expected at least one solver for the instances named")
    require_visible(options.results, jobs.values())
    return list(jobs.values())


def limits_of_campaign(options: argparse.Namespace, problem: Problem, timeouts: Mapping[str, float]) -> Limits:
    """Return the limits of runs on an instance: the command line's, else given ones, else the catalog's."""
    published = timeouts.get(problem.checksum) if timeouts else None
    timeout = options.timeout or published or problem.timeout_s or CAMPAIGN_TIMEOUT_S
    return Limits(timeout, options.memory_limit, options.cores, options.cpu, options.processes, options.output_limit)


def require_visible(results: Path, jobs: Collection[Job]) -> None:
    """Raise InputError if files that runs need are in the results folder, which is hidden from runs."""
    needed = [Path(sys.prefix), Path(host.__file__), Path(tempfile.gettempdir())]
    needed += [job.problem.path.absolute() for job in jobs]
    needed += [Path(word) for job in jobs for word in (job.solver.file, *job.solver.command)]
    for path in filter(Path.is_absolute, dict.fromkeys(needed)):
        if path.resolve().is_relative_to(results.resolve()):
            raise InputError(results, "--results", f"expected a folder without files that runs need, found {path}")


def contenders(options: argparse.Namespace, tracks: Iterable[str]) -> list[SolverInfo]:
    """Return the methods of a campaign: those of --solver (with --set) and --command, or all if neither is given."""
    check_settings(options)
    infos = discover(options.solver_path)
    known = {info.name for info in infos}
    for name in options.solver or ():
        if name not in known:
            raise InputError("solver", repr(name), f"expected {catalog.named('solver', name, known)}")
    taken = {(info.track, info.name) for info in infos}
    programs = [from_command(command, track) for command in options.command_line for track in tracks]
    for program in programs:
        if (program.track, program.name) in taken:
            expected = f"expected a name that is unused in {program.track}; a TOML file can rename the program"
            raise InputError("command", program.name, expected)
        taken.add((program.track, program.name))
    if options.solver or programs:
        given = by_name(options.set)
        infos = [with_settings(info, given) for info in infos if info.name in (options.solver or ())]
    return infos + programs


@contextmanager
def locked_store(folder: Path) -> Iterator[Store]:
    """Open the database of a campaign, locked against other writers.

    A new folder goes again if the campaign is refused before it has any run.
    """
    new = not folder.exists()
    with exclusive(folder), closing(Store.open(folder, create=True, tell=Progress(0, 0).line)) as store:
        try:
            yield store
        except InputError:
            if new and not store.finished():
                shutil.rmtree(folder)
            raise


def missing(jobs: Sequence[Job], finished: Mapping[str, str], *, retry: bool) -> list[Job]:
    """Return the jobs to run: those not in ``finished`` or killed from outside, and with ``retry`` those not "ok"."""
    return [job for job in jobs if (status := finished.get(job.id)) in (None, KILLED) or (retry and status != "ok")]


def forecast(options: argparse.Namespace, jobs: Sequence[Job]) -> list[dict[str, object]]:
    """Return a row per track, and one for all: runs, how many are left, and the most hours that these take."""
    finished: Mapping[str, str] = {}
    if options.results.exists():
        with closing(Store.open(options.results)) as store:
            finished = store.finished()
    left = {job.id: job.limits.timeout_s for job in missing(jobs, finished, retry=options.retry_failed)}
    tracks = dict.fromkeys(job.solver.track for job in jobs)
    groups = {track: [job for job in jobs if job.solver.track == track] for track in tracks}
    groups |= {"all": list(jobs)} if len(groups) > 1 else {}
    return [
        {
            "track": track,
            "instances": len({(job.solver.track, job.problem.id) for job in group}),
            "methods": len({(job.solver.track, job.solver.name) for job in group}),
            "runs": len(group),
            "left": sum(job.id in left for job in group),
            "hours": round(sum(left.get(job.id, 0.0) for job in group) / (options.jobs or 1) / 3600, 2),
        }
        for track, group in groups.items()
    ]


def run_jobs(options: argparse.Namespace, jobs: list[Job], store: Store) -> Answer:
    """Run the missing jobs, and summarise how all runs ended."""
    todo = missing(jobs, store.finished(), retry=options.retry_failed)
    progress = Progress(len(jobs), len(jobs) - len(todo), options.quiet)
    about = utc_now(), sys.argv, host.version(), facts_for(todo), [job.id for job in jobs]
    with closing(executor_of(options, todo, progress.line)) as executor:
        number = store.add_campaign(*about, executor=executor.name, jobs=executor.capacity)
        signal_number = campaign(store, number, todo, executor, progress)
    endings = store.endings()
    done = [endings[job.id] for job in jobs if job.id in endings]
    if signal_number:
        progress.line(f"interrupted with {len(done)} of {len(jobs)} runs done; the same command resumes")
    for name, disturbance in store.disturbances(number):
        print(printable(f"warning: {name or 'this machine'}: {disturbance}"), file=sys.stderr)
    return (128 + signal_number if signal_number else 0), {
        "results": str(options.results),
        "runs": len(jobs),
        "started": len(todo),
        **summary.counts(done),
    }


def facts_for(jobs: Sequence[Job]) -> dict[str, Any]:
    """Return the facts of this machine, for a campaign worth it with its yardstick."""
    facts = host.facts()
    if sum(job.limits.timeout_s for job in jobs) >= yardstick.WORTH_S:
        facts["yardstick"] = dict(yardstick.measured())
    return facts


def run_cells(options: argparse.Namespace, cells: Sequence[Cell]) -> Answer:
    """Carry out the missing runs of a reproduction; return the outcomes of all runs, unless interrupted."""
    from shardmark.harness.results import ranking
    from shardmark.leaderboard.reproductions import finished

    infos = discover()
    asked: dict[str, Cell] = {}
    jobs = []
    for cell in cells:
        track = cell.problem.track or cell.problem.instance.track
        solver = find_method([x for x in infos if x.kind == cell.kind], track, cell.method, cell.kind)
        limits = Limits(cell.timeout_s, options.memory_limit, options.cores)
        jobs.append(Job(solver, cell.problem, cell.seed, limits, options.results))
        asked[jobs[-1].id] = cell
    require_visible(options.results, jobs)
    with locked_store(options.results) as store:
        status, counts = run_jobs(options, jobs, store)
        if status:
            return status, counts
        return 0, finished(asked, ranking.tables(store, {cell.problem.id for cell in cells}), store.solution)


def executor_of(options: argparse.Namespace, jobs: Sequence[Job], tell: Callable[[str], None]) -> Executor:
    """Return the executor that carries out the jobs of a campaign."""
    cores = max((job.limits.cores for job in jobs), default=1)
    if options.executor == "local":
        backend = choose(options.limits, options.isolation)
        tell(f"limits: {backend}")
        warn_of(backend)
        return LocalExecutor(options.jobs or 1, cores, backend.supervisor)
    from shardmark.harness.campaign.dask.executor import DaskExecutor

    return DaskExecutor(options.scheduler, cores, options.jobs, tell)


def warn_of(backend: Backend) -> None:
    """Warn if a backend cannot isolate runs as requested."""
    if backend.warning:
        print(printable(f"warning: {backend.warning}"), file=sys.stderr)
