"""Commands that carry out campaigns, or serve them as a worker."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from shardmark.cli import against, values
from shardmark.cli import options as shared
from shardmark.cli.options import Answer, Command
from shardmark.cli.output import say
from shardmark.cli.terminal import Progress, table
from shardmark.harness.sandbox.contract import CAMPAIGN_TIMEOUT_S
from shardmark.instances import InputError, tracks


def run_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    shared.add_quiet(sub)
    matrix = sub.add_argument_group("the matrix")
    which = matrix.add_mutually_exclusive_group()
    which.add_argument(
        "--suite", default="quick", metavar="NAME", help="run the instances of this suite (default: quick)"
    )
    which.add_argument(
        "-i",
        "--instance",
        action="append",
        metavar="INSTANCE",
        help="run this instance, a file or an id; may be repeated",
    )
    matrix.add_argument(
        "--track", choices=tracks(), help="with --suite, run only this track; with files, the track of their instances"
    )
    matrix.add_argument(
        "-s", "--solver", action="append", metavar="NAME", help="run only this solver or bound method; may be repeated"
    )
    shared.add_settings(matrix)
    matrix.add_argument(
        "--command",
        action="append",
        default=[],
        dest="command_line",
        metavar="CMD",
        help="run only this program, started as `CMD FILE SECONDS`, and the methods of --solver; may be repeated",
    )
    matrix.add_argument("--seeds", type=values.seeds, default=1, metavar="N", help="run seeds 0 to N-1 (default: 1)")
    words = "ask for certificates of lower bounds and check them; these runs count apart from runs without"
    matrix.add_argument("--certificates", action="store_true", help=words)
    shared.add_retry(matrix)
    shared.add_results(matrix)
    against.add_against(
        matrix, "the newest that has the suite", "take runs that need not be repeated, and time limits,"
    )
    matrix.add_argument(
        "--dry-run", action="store_true", help="run nothing; print how many runs are left and the most hours they take"
    )
    shared.add_track_options(sub, without=["memory"])
    where = sub.add_argument_group("the executor")
    shared.add_jobs(where, "1; dask: one per worker")
    where.add_argument(
        "--executor",
        choices=("local", "dask"),
        default="local",
        help="run on this machine or on Dask workers (default: local)",
    )
    where.add_argument("--scheduler", metavar="ADDRESS", help="address of Dask's scheduler: tcp://HOST:8786")
    shared.add_limits(sub, CAMPAIGN_TIMEOUT_S, "--memory", seed=False)


def run_run(options: argparse.Namespace) -> Answer:
    """Run a campaign: all solvers on all instances and seeds; the same command resumes it."""
    from shardmark.cli import summary
    from shardmark.cli.matrix import forecast, locked_store, matrix, run_jobs

    check_executor(options)
    edition = against.edition_of(options, None if options.instance else options.suite)
    asked = matrix(options, against.timeouts_of(edition))
    jobs, taken = against.without_published(edition, asked)
    if options.dry_run:
        return 0, forecast(options, jobs)
    with locked_store(options.results) as store:
        status, found = run_jobs(options, jobs, store)
    status = status or (shared.FAULTY if found[summary.FAILED] else 0)
    if edition is not None:
        stands = against.standing(options.results, edition, {job.problem.id for job in asked})
        found |= {"against": edition.name, "taken": taken, "standing": stands}
    if options.json:
        return status, found
    say(f"{summary.words(found)}\n")
    if edition is not None:
        say(f"\nAmong the runs of the edition {edition.name}:\n{table(found['standing'])}\n")
    return status, None


def check_executor(options: argparse.Namespace) -> None:
    """Raise InputError for conflicting options of an executor, or an invalid address."""
    if (options.executor == "dask") != (options.scheduler is not None):
        raise InputError("run", "", "expected --executor dask and --scheduler ADDRESS together")
    if options.executor == "local":
        return
    if (options.limits, options.isolation) != ("auto", "auto"):
        raise InputError("run", "--limits and --isolation", "expected them at `shardmark worker`, which enforces them")
    with _with_dask():
        from shardmark.harness.campaign.dask.scheduler import connection_settings

    connection_settings(options.scheduler, "client")


def worker_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `worker`."""
    sub.add_argument(
        "--scheduler", required=True, metavar="ADDRESS", help="address of Dask's scheduler; `dask scheduler` starts one"
    )
    which = sub.add_mutually_exclusive_group()
    which.add_argument("--cores", type=values.positive_int, default=1, metavar="N", help="CPUs per run (default: 1)")
    which.add_argument(
        "--cpus",
        type=values.numbers,
        metavar="LIST",
        help="CPUs to use, such as 0,2,4-7 (default: the first that no other worker has)",
    )
    sub.add_argument(
        "--name",
        type=values.filled,
        metavar="NAME",
        help="name of this machine in the results (default: its host name)",
    )
    shared.add_backend(sub)


def run_worker(options: argparse.Namespace) -> Answer:
    """Carry out runs of a Dask scheduler's campaigns, one at a time, until Ctrl-C."""
    with _with_dask():
        from shardmark.harness.campaign.dask.scheduler import connection_settings
        from shardmark.harness.campaign.dask.serving import serve
        from shardmark.harness.campaign.dask.worker import ShardmarkPlugin
    import platform

    from shardmark.cli.matrix import warn_of
    from shardmark.harness.campaign.cpus import Claims, usable_cpus
    from shardmark.harness.sandbox.backends.choice import choose

    connection_settings(options.scheduler, "worker")
    usable = usable_cpus()
    asked = [cpu for cpu in usable if options.cpus is None or cpu in options.cpus]
    wanted = options.cores if options.cpus is None else len(options.cpus)
    with Claims(options.scheduler) as claims:
        cpus = claims.take(asked, wanted)
        if len(cpus) < wanted:
            free = f"{wanted} CPUs that no other worker of this scheduler uses"
            raise InputError("worker", "--cpus or --cores", f"expected {free}, found {len(cpus)}")
        backend = choose(options.limits, options.isolation)
        warn_of(backend)
        with backend.supervisor() as supervisor:
            plugin = ShardmarkPlugin(options.name or platform.node(), cpus, supervisor, str(backend))
            serve(options.scheduler, plugin, Progress(0, 0).line)
    return 0, None


@contextmanager
def _with_dask() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        expected = f"expected the packages of the extra `dask`, found no {error.name}"
        raise InputError("dask", "", expected) from None
    except ValueError as error:  # Dask reads its configuration when it is imported
        expected = f"expected valid YAML ({' '.join(str(error).split())})"
        raise InputError("Dask's configuration", "", expected) from None


COMMANDS = (
    Command("run", run_run, run_arguments, "--suite quick --jobs 2"),
    Command("worker", run_worker, worker_arguments, "--scheduler tcp://HOST:8786 --cores 4"),
)
