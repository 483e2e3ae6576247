"""What the commands of the command line do: each takes its options and returns exit status and answer."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.campaign import host
from harness.campaign.cpus import Claims, usable_cpus
from harness.campaign.discover import SolverInfo, discover, from_command
from harness.campaign.jobs import Job, Problem, utc_now
from harness.campaign.local_executor import LocalExecutor
from harness.campaign.queue import Executor, campaign
from harness.campaign.settings import by_name, with_settings
from harness.results.database import Store, exclusive
from harness.results.judgement import FAULTS
from harness.sandbox.backends.choice import Backend, choose
from harness.sandbox.contract import Limits
from instances import InputError, catalog, save, track_module, tracks
from instances.files.jsonfile import require_writable, write_bytes, write_json
from shardmark import api
from shardmark.api import RunOptions
from shardmark.cli.conformance import submit, verdict
from shardmark.cli.output import say
from shardmark.cli.terminal import Progress, printable, report, table, unmarked
from shardmark.problems import find_problem
from shardmark.runs import find_method

if TYPE_CHECKING:
    from leaderboard.reproductions import Cell
    from shardmark.outcomes import RunResult

Answer = tuple[int, Any]  # exit status, and what is printed: an object or a list of objects


# ---------------------------------------------------------------- options


def given_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of tracks that the command line gives an instance."""
    names = [name for track in tracks() for name in track_module(track).OPTIONS]
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def load_named(options: argparse.Namespace) -> Any:
    """The instance that the command line names, read with its options."""
    return api.load(options.instance, track=options.track, **given_options(options))


def limits_of(options: argparse.Namespace) -> RunOptions:
    """How the command line wants one run to be held."""
    return {
        "timeout": options.timeout,
        "memory": options.memory,
        "cores": options.cores,
        "cpu": options.cpu,
        "processes": options.processes,
        "output": options.output_limit,
        "seed": options.seed,
        "limits": options.limits,
        "isolation": options.isolation,
    }


# ---------------------------------------------------------------- commands


def run_list(options: argparse.Namespace) -> Answer:
    """What there is."""
    wanted = tracks() if options.track is None else (options.track,)
    if options.what == "instances":
        return 0, [
            {"id": e.id, "track": e.track, "suites": ",".join(e.suites), "time_limit_s": e.time_limit_s, "note": e.note}
            for e in catalog.entries()
            if e.track in wanted
        ]
    if options.what == "suites":
        of_tracks = {name: [e for e in members if e.track in wanted] for name, members in catalog.suites().items()}
        return 0, [
            {"suite": name, "instances": len(members), "tracks": ",".join(sorted({e.track for e in members}))}
            for name, members in of_tracks.items()
            if members
        ]
    kind = options.what.removesuffix("s")
    found = [s for s in discover(options.solver_path) if s.kind == kind and s.track in wanted]
    abouts = (s.error or unmarked(s.description) for s in found)
    return 0, [
        {"name": s.name, "track": s.track, "params": json.dumps(dict(s.params)), "about": about}
        for s, about in zip(found, abouts, strict=True)
    ]


def run_solve(options: argparse.Namespace) -> Answer:
    """One run under limits.

    The bound shown is the greatest at hand; ``bound_from`` says whose: the instance's own simple one, which `info`
    shows, a published one, or the solver's. ``gap`` is cost / bound - 1, a fraction: 0.5 if the cost can be half as
    much again as the optimum; 0 where it is proven to be the optimum.

    The exit status is 0 if the solver found a feasible solution, also if a limit ended it after that. It is 1 if it
    found none, or if it crashed, failed or made a claim that is refuted: the solution that it reported before is shown
    and written all the same, and standard error says what happened.
    """
    check_settings(options)
    require_outputs(options.output)
    found = api.solve(
        load_named(options),
        options.solver,
        command=options.command_line,
        params=by_name(options.set),
        solver_path=options.solver_path,
        **limits_of(options),
    )
    tell_of(found)
    if options.output and found.solution is not None:
        write_json(options.output, found.solution)
        print(printable(f"wrote the solution to {options.output}"), file=sys.stderr)
    return int(found.cost is None or at_fault(found)), {
        "instance": found.instance,
        **found.options,
        "solver": found.method,
        "status": found.status,
        "reason": found.reason,
        "feasible": found.feasible,
        "cost": found.cost,
        "lower_bound": found.lower_bound,
        "bound_from": found.bound_from,
        "gap": found.gap,
        "optimal": found.optimal,
        **measured(found),
    }


def require_outputs(*files: Path | None) -> None:
    """InputError for a file that could not be written later; None stands for none."""
    for file in filter(None, files):
        require_writable(file)


def check_settings(options: argparse.Namespace) -> None:
    """InputError for parameters of no solver that is named."""
    if options.set and not options.solver:
        raise InputError("--set", repr(options.set[0][0]), "expected it beside --solver")


def tell_of(run: RunResult) -> None:
    """Print a run's log on standard error, and how it failed if it did."""
    if run.log:
        print(printable(run.log, keep="\n\t"), end="" if run.log.endswith("\n") else "\n", file=sys.stderr)
    if run.status in FAULTS:
        words = {"crash": "crashed", "lost": "was lost"}.get(run.status, "failed")
        counts = "; what it had reported before counts" if run.cost is not None or run.bounds else ""
        print(printable(f"shardmark: {run.method} {words}: {run.reason}{counts}"), file=sys.stderr)


def at_fault(run: RunResult) -> bool:
    """Return whether a run ended by a fault of the solver, or claimed what is refuted, whatever it reported."""
    return run.status in (*FAULTS, "contradiction", "misclaim")


def measured(run: RunResult) -> dict[str, Any]:
    """What a run used, rounded for reading, and how it was held to its limits."""
    used = {"wall_s": round(run.wall_s, 3), "cpu_s": round(run.cpu_s, 3), "peak_mib": round(run.peak_mib, 1)}
    return {**used, "limits": run.limits or None}


def run_check(options: argparse.Namespace) -> Answer:
    """The verdict on a solution, and how far from the optimum it can be at most.

    With --method, one run of a bound, or of a solver that proves bounds, comes before the answer; ``method_cost`` is
    that of the best solution that it finds on its way (`solve` writes it to a file). The run is left out for a solution
    that is infeasible; a bound above the verified cost of one that is feasible counts for nothing. ``bound_from`` says
    whose the greatest bound is: the instance's own simple one, which `info` shows, a published one, or the method's.
    ``gap`` is cost / bound - 1, a fraction; 0 where the cost is proven to be the optimum.
    """
    if options.timeout and not options.method:
        raise InputError("check", "--timeout", "expected it beside --method, which it is the limit of")
    held: RunOptions = limits_of(options) if options.method else {}
    found = api.check(
        load_named(options), Path(options.solution), method=options.method, solver_path=options.solver_path, **held
    )
    if found.run is not None:
        tell_of(found.run)
    return int(not found.feasible), {
        "instance": found.instance,
        **found.options,
        "feasible": found.feasible,
        "cost": found.cost,
        "lower_bound": found.lower_bound,
        "bound_from": found.bound_from,
        "gap": found.gap,
        "optimal": found.optimal,
        "violations": list(found.violations),
        **found.facts,
        **({} if found.run is None else of_method(found.run)),
    }


def of_method(run: RunResult) -> dict[str, Any]:
    """What `check` tells of the run of a method."""
    about = {"method": run.method, "method_cost": run.cost, "status": run.status, "reason": run.reason}
    return {**about, **measured(run)}


def run_bound(options: argparse.Namespace) -> Answer:
    """A lower bound, and whether it is proven to be the optimum.

    The cost that a method finds beside it is "optimal" if the bound leaves no room below: less than 1 where costs are
    integers, a relative 1e-5 where they are floats. ``gap`` is cost / bound - 1, a fraction; 0 where it is "optimal".
    The exit status is 1 if there is no bound, if the bound is refuted, or if the method crashed or failed after it.
    """
    found = api.bound(load_named(options), options.method, solver_path=options.solver_path, **limits_of(options))
    tell_of(found)
    return int(found.lower_bound is None or at_fault(found)), {
        "instance": found.instance,
        **found.options,
        "method": found.method,
        "lower_bound": found.lower_bound,
        "cost": found.cost,
        "gap": found.gap,
        "optimal": found.optimal,
        "status": found.status,
        "reason": found.reason,
        **measured(found),
    }


def run_info(options: argparse.Namespace) -> Answer:
    """Facts about an instance."""
    return 0, load_named(options).summary()


def run_run(options: argparse.Namespace) -> Answer:
    """The matrix of solvers, instances and seeds; resumes where it stopped."""
    check_executor(options)
    jobs = matrix(options)
    with kept_alone(options.results) as store:
        return run_jobs(options, jobs, store)


@contextmanager
def kept_alone(folder: Path) -> Iterator[Store]:
    """The database of a campaign, which no other may write meanwhile."""
    with exclusive(folder), closing(Store.open(folder, create=True, tell=Progress(0, 0).line)) as store:
        yield store


def run_jobs(options: argparse.Namespace, jobs: list[Job], store: Store) -> Answer:
    """Do what is missing, and count how all of it ended."""
    finished = store.finished()
    todo = [
        job for job in jobs if (status := finished.get(job.id)) is None or (options.retry_failed and status != "ok")
    ]
    progress = Progress(len(jobs), len(jobs) - len(todo), options.quiet)
    about = utc_now(), sys.argv, host.version(), host.facts(), [job.id for job in jobs]
    with closing(executor_of(options, todo, progress.line)) as executor:
        number = store.add_campaign(*about, executor=executor.name, jobs=executor.capacity)
        signal_number = campaign(store, number, todo, executor, progress)
    done = store.finished()
    statuses = [done[job.id] for job in jobs if job.id in done]
    if signal_number:
        progress.line(f"interrupted with {len(statuses)} of {len(jobs)} runs done, the same command goes on from here")
    for name, disturbance in store.disturbances(number):
        print(printable(f"warning: {name or 'this machine'}: {disturbance}"), file=sys.stderr)
    return (ended_by(signal_number) if signal_number else 0), {
        "results": str(options.results),
        "runs": len(jobs),
        "started": len(todo),
        "ok": statuses.count("ok"),
        "declined": statuses.count("declined"),
        "failed": sum(status not in ("ok", "declined") for status in statuses),
    }


def ended_by(signal_number: int) -> int:
    """The exit status of a command that a signal ended, as shells have it."""
    return 128 + signal_number


def check_executor(options: argparse.Namespace) -> None:
    """InputError for options of an executor that do not go together, and an address that is none."""
    if (options.executor == "dask") != (options.scheduler is not None):
        raise InputError("run", "", "expected --executor dask and --scheduler ADDRESS together")
    if options.executor == "local":
        return
    if (options.limits, options.isolation) != ("auto", "auto"):
        raise InputError(
            "run", "--limits and --isolation", "expected them with `shardmark worker`, which holds the runs"
        )
    with _with_dask():
        from harness.campaign.dask_worker import check_address

    check_address(options.scheduler)


def executor_of(options: argparse.Namespace, jobs: Sequence[Job], tell: Callable[[str], None]) -> Executor:
    """What carries out the jobs of a campaign."""
    cores = max((job.limits.cores for job in jobs), default=1)
    if options.executor == "local":
        backend = choose(options.limits, options.isolation)
        tell(f"limits: {backend}")
        warn_of(backend)
        return LocalExecutor(options.jobs or 1, cores, backend.warden)
    from harness.campaign.dask_executor import DaskExecutor

    return DaskExecutor(options.scheduler, cores, options.jobs, tell)


def warn_of(backend: Backend) -> None:
    """Say where runs are not isolated that were to be."""
    if backend.warning:
        print(printable(f"warning: {backend.warning}"), file=sys.stderr)


@contextmanager
def _with_dask() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        expected = f"expected the packages of the extra `dask`, there is no {error.name}"
        raise InputError("dask", "", expected) from None


def run_worker(options: argparse.Namespace) -> Answer:
    """Carry out runs of campaigns elsewhere, one at a time, until Ctrl-C."""
    with _with_dask():
        from harness.campaign.dask_worker import Station, serve
    usable = usable_cpus()
    asked = [cpu for cpu in usable if options.cpus is None or cpu in options.cpus]
    wanted = options.cores if options.cpus is None else len(options.cpus)
    with Claims(options.scheduler) as claims:
        cpus = claims.take(asked, wanted)
        if len(cpus) < wanted:
            free = f"{wanted} usable CPUs that no other worker of this scheduler has"
            raise InputError("worker", "--cpus or --cores", f"expected {free}, found {len(cpus)}")
        backend = choose(options.limits, options.isolation)
        warn_of(backend)
        with backend.warden() as warden:
            station = Station(options.name or platform.node(), cpus, warden, str(backend))
            serve(options.scheduler, station, Progress(0, 0).line)
    return 0, None


def matrix(options: argparse.Namespace) -> list[Job]:
    """All jobs of a campaign, those of one instance together; bounds need one seed only."""
    references = options.instance or [entry.id for entry in catalog.suite(options.suite)]
    problems = [find_problem(reference, None, given_options(options)) for reference in references]
    infos = contenders(options, dict.fromkeys(problem.track or problem.instance.track for problem in problems))
    jobs: dict[str, Job] = {}
    for problem in problems:
        track = problem.track or problem.instance.track
        for info in infos:
            if info.track != track:
                continue
            seeds = range(options.seeds if info.kind == "solver" else 1)
            limits = limits_of_campaign(options, problem)
            for job in (Job(info, problem, seed, limits, options.results) for seed in seeds):
                jobs.setdefault(job.id, job)  # an instance named twice is run once
    if not jobs:
        raise InputError("run", "", "expected at least one solver for the instances named")
    keep_apart(options.results, jobs.values())
    return list(jobs.values())


def limits_of_campaign(options: argparse.Namespace, problem: Problem) -> Limits:
    """The limits of a campaign's runs on an instance: those of the command line, and the time of the catalog."""
    timeout = options.timeout or problem.timeout_s
    return Limits(timeout, options.memory, options.cores, options.cpu, options.processes, options.output_limit)


def keep_apart(results: Path, jobs: Collection[Job]) -> None:
    """InputError if what runs need lies in the folder of results, which they do not see."""
    needed = [Path(sys.prefix), Path(host.__file__), Path(tempfile.gettempdir())]
    needed += [job.problem.path.absolute() for job in jobs]
    needed += [Path(word) for job in jobs for word in (job.solver.file, *job.solver.command)]
    for path in filter(Path.is_absolute, dict.fromkeys(needed)):
        if path.resolve().is_relative_to(results.resolve()):
            raise InputError(results, "--results", f"expected a folder that hides nothing from runs, {path} lies in it")


def contenders(options: argparse.Namespace, tracks: Iterable[str]) -> list[SolverInfo]:
    """The solvers of a campaign: those that --solver, with its --set, and --command name, or all that there are."""
    check_settings(options)
    infos = discover(options.solver_path)
    known = {info.name for info in infos}
    for name in options.solver or ():
        if name not in known:
            near = catalog.near_miss(name, known)
            raise InputError("solver", repr(name), f"expected one of {', '.join(sorted(known))}{near}")
    taken = {(info.track, info.name) for info in infos}
    programs = [from_command(command, track) for command in options.command_line for track in tracks]
    for program in programs:
        if (program.track, program.name) in taken:
            expected = f"expected a program whose name {program.track} does not have yet, a TOML file can name it anew"
            raise InputError("command", program.name, expected)
        taken.add((program.track, program.name))
    if options.solver or programs:
        given = by_name(options.set)
        infos = [with_settings(info, given) for info in infos if info.name in (options.solver or ())]
    return infos + programs


def run_results(options: argparse.Namespace) -> Answer:
    """The table of runs with their scores, or another; also as Parquet and CSV."""
    from harness.results import ranking

    require_outputs(options.parquet, options.csv)
    frame = ranking.export_table(api.results(options.results), options.table)
    if options.parquet:
        ranking.write_parquet(frame, options.parquet)
    if options.csv:
        ranking.write_csv(frame, options.csv)
    shown = frame if options.json else ranking.shown_table(frame, options.table)
    return 0, shown.to_dicts()


def run_leaderboard(options: argparse.Namespace) -> Answer:
    """The static site."""
    from harness.results import ranking
    from leaderboard.build import build
    from leaderboard.drawings import best

    only = None if options.suite is None else {entry.id for entry in catalog.suite(options.suite)}
    with closing(Store.open(options.results)) as store:
        tables = ranking.tables(store, only)
        pictures = best.best(store, tables)
    return 0, {"index": str(build(tables, options.output, pictures))}


def run_reproduce(options: argparse.Namespace) -> Answer:
    """A paper's tables or figures, ours beside the published ones."""
    from leaderboard import reproductions
    from leaderboard.build import require_writable
    from leaderboard.reproduction_page import write

    require_writable(options.output)
    chosen = reproductions.reproductions()[options.name]
    settings = replace(
        chosen.DEFAULTS, **{key: getattr(options, key) for key in reproductions.options(chosen.DEFAULTS)}
    )
    options.jobs = options.jobs or max(1, len(usable_cpus()) // options.cores)
    graphs = Path(f"{options.results.resolve()}-graphs")  # runs do not see the folder of results
    status, answer = run_cells(options, chosen.plan(settings, graphs))
    if status:
        return status, answer
    found = chosen.report(settings, answer)
    held = f"{host.facts()['cpu']}; {options.cores} of its cores and {options.memory:g} MiB a run"
    made = {"Machine": f"{held}, {options.jobs} at once", "Made with": f"shardmark {host.version()}"}
    found = replace(found, facts={**found.facts, **made})
    page = write(found, options.output)
    faults = sum(run.status in FAULTS for run in answer)
    if faults:
        words = f"{faults} of {len(answer)} runs ended by a fault, with --retry-failed they are done again"
        print(f"warning: {words}", file=sys.stderr)
    if options.json:
        return int(faults > 0), {**asdict(found), "page": str(page)}
    say(f"{report(found)}\n\npage: {page}\n")
    return int(faults > 0), None


def run_cells(options: argparse.Namespace, cells: Sequence[Cell]) -> Answer:
    """Do what is missing of the runs that a reproduction needs; their outcomes, unless it was interrupted."""
    from harness.results import ranking
    from leaderboard.reproductions import finished

    infos = discover()
    asked: dict[str, Cell] = {}
    jobs = []
    for cell in cells:
        track = cell.problem.track or cell.problem.instance.track
        solver = find_method([x for x in infos if x.kind == cell.kind], track, cell.method, cell.kind)
        limits = Limits(cell.timeout_s, options.memory, options.cores)
        jobs.append(Job(solver, cell.problem, cell.seed, limits, options.results))
        asked[jobs[-1].id] = cell
    keep_apart(options.results, jobs)
    with kept_alone(options.results) as store:
        status, counts = run_jobs(options, jobs, store)
        if status:
            return status, counts
        return 0, finished(asked, ranking.tables(store, {cell.problem.id for cell in cells}), store.solution)


def run_fetch(options: argparse.Namespace) -> Answer:
    """Public instances into the cache, checksums verified."""
    from instances.fetch import fetch

    suites = catalog.suites()
    entries = [e for name in options.suite or ["contest"] for e in suites.get(name) or [catalog.find(name)]]
    outcomes = fetch(entries, options.mirror, lambda text: print(printable(text), file=sys.stderr))
    failed = sum(outcome.error != "" for outcome in outcomes)
    return int(failed > 0), [{"id": o.id, "path": str(o.path or ""), "error": o.error} for o in outcomes]


def run_generate(options: argparse.Namespace) -> Answer:
    """A new instance from a seed."""
    from instances.generate import families

    require_outputs(options.output)
    family = families()[options.family]
    given = {key: getattr(options, key) for key in family.parameters if getattr(options, key) is not None}
    instance = family.build(options.seed, **given)
    save(instance, options.output)
    return 0, {"output": str(options.output), **instance.summary()}


def run_import(options: argparse.Namespace) -> Answer:
    """A new instance from a file of another program."""
    from instances.importers import importers

    require_outputs(options.output)
    importer = importers()[options.importer]
    given = {name: getattr(options, name) for name in importer.OPTIONS}
    if getattr(importer, "TELLS", False):
        given["tell"] = lambda text: print(printable(f"note: {text}"), file=sys.stderr)
    instance = importer.read(options.file, **given)
    save(instance, options.output)
    return 0, {"output": str(options.output), **instance.summary()}


def run_new_solver(options: argparse.Namespace) -> Answer:
    """A solver file to start from; its folder is created if there is none."""
    from shardmark.cli.new_solver import template

    folder = options.directory or (Path("solvers") / options.track if Path("solvers/registry.py").is_file() else Path())
    path = Path(folder) / f"{options.name.replace('-', '_')}.py"
    if os.path.exists(path):
        raise InputError(path, "", "expected a name that is still free")
    other = next((info for info in discover() if (info.track, info.name) == (options.track, options.name)), None)
    if other:
        raise InputError(path, "", f"expected a name that is still free, found {other.name} in {other.file}")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(folder, "--directory", f"expected a folder that can be written ({error.strerror})") from None
    write_bytes(path, template(options.name, options.track).encode())
    return 0, {
        "file": str(path),
        "try": f"shardmark solve INSTANCE --solver {options.name} --solver-path {path}",
        "check": f"shardmark submit {path}",
    }


def run_submit(options: argparse.Namespace) -> Answer:
    """The conformance check of a solver, before it is proposed."""
    findings = submit(options.file, options.track, lambda text: print(printable(text), file=sys.stderr))
    rows = [asdict(finding) for finding in findings]
    status = int(any(finding.passed == "no" for finding in findings))
    if options.json:
        return status, rows
    say(f"{table(rows)}\n\n{printable(verdict(findings, options.file))}\n")
    return status, None
