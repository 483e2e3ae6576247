"""The choice of a backend, and the fallback if the better one does not work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from orders import order_of
from referee import backend_here

from shardmark import instances
from shardmark.cli import matrix
from shardmark.cli.arguments import main
from shardmark.cli.submission import conformance
from shardmark.harness.sandbox.backends import choice
from shardmark.harness.sandbox.backends.choice import NOT_ISOLATED, Backend, choose, described
from shardmark.harness.sandbox.contract import MEASURES, Limits, Outcome
from shardmark.instances import InputError, catalog, load_hashed
from shardmark.instances.files import array_cache

pytestmark = pytest.mark.gate(cases=1)

HARD = dict.fromkeys(MEASURES, "hard")
BARE = HARD | {"network": "none", "files": "none"}
EMBEDDED = Path(instances.__file__).parent / "data"
#: Prints the type of the instance's memory, then tries to spoil, delete and add arrays in the cache.
SPOILS_ARRAYS = """
    import contextlib
    from shardmark.instances import catalog
    from shardmark.instances.files import array_cache
    array = instance.table
    while hasattr(array, "base"):
        array = array.base
    print(type(array.obj).__name__)
    place = catalog.place_of_arrays(instance.source)
    for attempt in (lambda: place.write_bytes(b""), place.unlink, lambda: (place.parent / "new").write_bytes(b"")):
        with contextlib.suppress(OSError):
            attempt()
"""
#: A file with one bound method.
SOLVER = """
from shardmark.solvers.registry import bound

@bound(track="pipeline", source="a test")
def mine(instance, run):
    '''Report what every solution costs at least.'''
    run.bound(instance.work_bound())
"""


@pytest.fixture
def working(monkeypatch):
    """Let only some pairs of backend and isolation work, and some not isolate; return all pairs that were tried."""
    tried = []

    def only(*pairs, bare=()):
        def trial(supervisor):
            name, isolation = supervisor.backend, supervisor.isolation
            tried.append((name, isolation))
            if (name, isolation) in (*pairs, *bare):
                held = BARE if (name, isolation) in bare or isolation == "none" else HARD
                return Outcome("exit", peak_mib=1.0, enforced=held)
            return Outcome("error", f"{name} with isolation {isolation} is not to be had")

        monkeypatch.setattr(choice, "trial", trial)
        monkeypatch.setattr(choice, "isolation_error_in_subprocess", lambda: "isolation: the system does not let us")
        return tried

    return only


def test_the_best_that_works_is_chosen_and_the_reason_kept(working):
    tried = working(("posix", "auto"), ("benchexec", "none"))
    backend = choose()
    assert tried == [("benchexec", "auto"), ("posix", "auto")]
    assert (backend.name, backend.isolation, backend.warning) == ("posix", "auto", "")
    assert str(backend).endswith(", because benchexec with isolation auto is not to be had")


def test_without_isolation_control_groups_are_better_than_none(working):
    working(("benchexec", "none"), ("posix", "none"), bare=[("posix", "auto")])
    backend = choose()
    assert (backend.name, backend.isolation) == ("benchexec", "none")
    why = "benchexec with isolation auto is not to be had; isolation: the system does not let us"
    assert backend.why == why
    assert backend.warning == f"{NOT_ISOLATED} ({why})"
    assert choose("posix").warning == f"{NOT_ISOLATED} (isolation: the system does not let us)"


def test_without_a_wish_for_isolation_there_is_no_warning(working):
    working(("posix", "none"))
    assert (choose("auto", "none").name, choose("auto", "none").warning) == ("posix", "")


@pytest.mark.parametrize("limits", ["benchexec", "posix"])
def test_a_backend_that_is_asked_for_is_taken_or_refused(working, limits):
    working((limits, "none"))
    assert choose(limits, "none").name == limits
    working()
    with pytest.raises(InputError, match=rf"^limits: {limits}: expected .* \({limits} with isolation none is not to"):
        choose(limits, "none")


def test_a_backend_that_cannot_measure_memory_is_not_chosen(monkeypatch):
    monkeypatch.setattr(choice, "trial", lambda supervisor: Outcome("exit", peak_mib=0.0, enforced=HARD))
    with pytest.raises(InputError, match="do not report the peak memory of a run"):
        choose()


@pytest.mark.parametrize("isolation", ["auto", "none"])
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize("name", ["posix", "benchexec"])
def test_a_run_computes_on_all_its_cores(name, isolation, tmp_path):
    backend = backend_here(name, isolation)
    if backend.isolation != isolation:
        pytest.skip(backend.why)
    cpus = tuple(sorted(os.sched_getaffinity(0))[:2])
    if len(cpus) < 2:
        pytest.skip("needs two cores")
    body = """
        import numpy
        square = numpy.ones((600, 600))
        print((square @ square).sum(), len(os.listdir("/proc/self/task")), os.environ["OPENBLAS_NUM_THREADS"])
    """
    with backend.supervisor() as supervisor:
        for cores in (2, 1):
            limits = Limits(20.0, 512.0, cores=cores)
            outcome = supervisor.run(order_of(tmp_path, body, limits=limits, cpus=cpus[:cores]))
            assert (outcome.stop, outcome.log) == ("exit", f"216000000.0 {cores} {cores}\n"), outcome.reason


@pytest.mark.parametrize("name", ["posix", "benchexec"])
def test_an_isolated_run_maps_kept_arrays_and_cannot_change_them(name, tmp_path, monkeypatch):
    """A run has its own home, so it must be told where the user's cache is."""
    backend = backend_here(name)
    if backend.isolation != "auto":
        pytest.skip(backend.why)
    monkeypatch.delenv("SHARDMARK_CACHE", raising=False)
    monkeypatch.delenv("SHARDMARK_ARRAYS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(array_cache, "MIN_BYTES", 0)
    order = order_of(tmp_path, SPOILS_ARRAYS)
    instance = Path(order.instance)
    instance.write_bytes((EMBEDDED / "intraop" / "diamond.json").read_bytes())
    _, checksum = load_hashed(instance)
    place = catalog.place_of_arrays(instance)
    content, info = place.read_bytes(), place.stat()
    Path(order.file).write_text(Path(order.file).read_text().replace("pipeline", "intraop"))
    with backend.supervisor() as supervisor:
        outcome = supervisor.run(replace(order, track="intraop", checksum=checksum))
    assert (outcome.stop, outcome.log) == ("exit", "mmap\n"), outcome.reason
    assert (place.read_bytes(), place.stat().st_mtime_ns) == (content, info.st_mtime_ns)
    assert list(place.parent.iterdir()) == [place]


def test_without_any_environment_limits_are_enforced_as_usual(monkeypatch):
    monkeypatch.delenv("PATH")
    assert choose().why == ""


def test_enforcement_is_described_in_one_line():
    assert described("posix", HARD) == f"posix ({', '.join(MEASURES)} hard)"
    ways = HARD | {"cpu": "polled", "network": "none", "files": "none"}
    held = "wall, memory, cores, processes, output hard; cpu polled; network, files not held"
    assert described("posix", ways) == f"posix ({held})"


@pytest.mark.gate
def test_without_benchexec_the_other_backend_is_used(tmp_path, monkeypatch):
    package = tmp_path / "benchexec"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('BenchExec was made for another system')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    backend = choose()
    assert (backend.name, backend.why) == ("posix", "BenchExec was made for another system")
    with pytest.raises(InputError, match=r"\(BenchExec was made for another system\)$"):
        choose("benchexec")


CHOOSE = """
import sys
from shardmark.harness.sandbox.backends.choice import choose
from shardmark.harness.sandbox.contract import Limits, Order
from shardmark.instances.files.jsonfile import read_bytes, sha256
backend = choose(sys.argv[1])
with backend.supervisor() as supervisor:
    instance, command = sys.argv[2], ("sh", "-c", 'cat "$0"', sys.argv[3], "{instance}")
    run = Order("", instance, sha256(read_bytes(instance)), {}, "", "", 0, Limits(20.0, 256.0), (), command)
    outcome = supervisor.run(run)
print(backend.name, backend.isolation, outcome.enforced["files"], outcome.stop, outcome.log)
"""


@pytest.mark.gate
@pytest.mark.parametrize("limits", ["benchexec", "posix"])
def test_runs_are_isolated_despite_mounts_among_temporary_files(limits, chain, tmp_path):
    if backend_here(limits).isolation == "none":
        pytest.skip(backend_here(limits).why)
    if os.geteuid() and limits == "benchexec":
        pytest.skip("only root mounts something for its own processes and keeps its control groups")
    (tmp_path / "mounted").mkdir()
    mount = 'mount -t tmpfs none "$1"; echo a file there > "$1/file"; shift; exec "$@"'
    choice = [sys.executable, "-c", CHOOSE, limits, str(chain.path), str(tmp_path / "mounted" / "file")]
    namespace = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount anything")
    command = [*namespace, "sh", "-c", mount, "sh", str(tmp_path / "mounted"), *choice]
    found = subprocess.run(command, capture_output=True, text=True)
    assert (found.stdout, found.stderr) == (f"{limits} auto hard exit a file there\n\n", "")


@pytest.mark.gate
@pytest.mark.parametrize("command", ["run", "submit"])
def test_missing_isolation_is_warned_about(monkeypatch, capsys, chain, zoo, tmp_path, command):
    bare = backend_here("posix", "none")
    backend = Backend(bare.name, bare.isolation, bare.enforced, "no reason", f"{NOT_ISOLATED} (no reason)")
    monkeypatch.setattr(matrix, "choose", lambda *_: backend)
    monkeypatch.setattr(conformance, "choose", lambda *_: backend)
    solver = tmp_path / "mine.py"
    solver.write_text(SOLVER)
    run = ["run", "--instance", str(chain.path), "--solver", "simple", "--results", str(tmp_path / "results")]
    main(run if command == "run" else ["submit", str(solver)])
    assert capsys.readouterr().err.count(f"warning: {NOT_ISOLATED} (no reason)\n") == 1


def test_a_run_says_how_its_limits_were_enforced(chain, capsys):
    command = ["bound", str(chain.path), "--method", "simple", "--limits", "posix", "--isolation", "none", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["limits"].startswith("posix (wall")


@pytest.mark.gate
def test_a_campaign_says_once_how_limits_are_enforced(chain, capsys, tmp_path):
    command = ["run", "--instance", str(chain.path), "--solver", "simple", "--solver", "bottleneck"]
    assert main([*command, "--limits", "posix", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().err.count("limits: posix (") == 1


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--cpu", "0", "expected a positive number below 1e9, found '0'"),
        ("--processes", "1.5", "expected a whole number from 1 to 2147483647, found '1.5'"),
        ("--output-limit", "much", "expected a positive number below 1e9, found 'much'"),
    ],
)
def test_invalid_limits_are_refused(chain, capsys, option, value, expected):
    assert main(["solve", str(chain.path), "--solver", "simple", option, value]) == 2
    assert f"argument {option}: {expected}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "stop", "reason"),
    [
        ("--processes", "2", "processes", "had 3 processes at once, the limit is 2"),
        ("--cpu", "0.2", "cpu", "of CPU time, the limit is 0.2 s"),
        ("--output-limit", "0.5", "output", "more than 0.5 MiB"),
    ],
)
def test_limits_reach_the_run(chain, capsys, tmp_path, option, value, stop, reason):
    program = tmp_path / "greedy.sh"
    burst = {"--processes": "sleep 20 & sleep 20 & wait", "--output-limit": "head -c 3000000 /dev/zero; sleep 20"}
    program.write_text(burst.get(option, "while :; do :; done"))
    command = ["solve", str(chain.path), "--command", f"sh {program}", "--timeout", "20", "--json"]
    assert main([*command, option, value]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["status"] == stop
    assert reason in answer["reason"]
