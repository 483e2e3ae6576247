"""Backend ``benchexec``, beyond the requirements on every backend in `test_precision` and the zoo."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from marked import until
from patience import given_time
from referee import backend_here

from shardmark.harness.sandbox.backends import benchexec_backend, control_groups
from shardmark.harness.sandbox.contract import MEASURES, Cancelled
from shardmark.harness.sandbox.protocol import decode
from shardmark.harness.sandbox.supervisor import Supervisor

pytestmark = pytest.mark.gate(cases=1)

HELD = dict.fromkeys(MEASURES, "hard") | dict.fromkeys(("cpu", "processes", "output"), "polled")


@pytest.fixture(scope="module", params=["auto", "none"])
def isolation(request):
    """Both kinds of isolation; skips if this machine does not permit BenchExec with it."""
    backend = backend_here("benchexec", request.param)
    if backend.isolation != request.param:
        pytest.skip(backend.why)
    return request.param


@pytest.fixture(scope="module")
def supervisor(isolation):
    with Supervisor("benchexec", isolation) as supervisor:
        yield supervisor


@contextlib.contextmanager
def under_way(supervisor, order, cancel=None):
    """Start a run of three processes in a thread; return these once they have begun, and its future outcome."""
    token = f"shardmark-test-{os.getpid()}-{time.monotonic_ns()}"
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(supervisor.run, order("sh", "-c", f"sleep 60 & sleep 60; : {token}"), cancel)
        yield until(lambda: len(family := processes_with(token)) == 3 and family), outcome


def python(code):
    return sys.executable, "-I", "-S", "-c", code


def test_memory_and_cores_are_enforced_by_the_system(supervisor, isolation, order):
    outcome = supervisor.run(order(*python("import os; print(os.sched_getaffinity(0))")))
    isolated = "hard" if isolation == "auto" else "none"
    assert outcome.enforced == HELD | {"network": isolated, "files": isolated}
    assert outcome.log == f"{ {min(os.sched_getaffinity(0))} }\n"


def test_no_process_can_leave_its_cores(supervisor, order):
    every = sorted(psutil.Process().cpu_affinity())
    if len(every) < 2:
        pytest.skip("needs a second core to flee to")
    flee = f"import os; os.sched_setaffinity(0, {every}); print(len(os.sched_getaffinity(0)))"
    assert supervisor.run(order(*python(flee))).log == "1\n"


def test_cores_are_not_enforced_without_cpus(supervisor, order):
    free = order("true")
    outcome = supervisor.run(type(free)(**{**vars(free), "cpus": ()}))
    assert (outcome.stop, outcome.enforced["cores"]) == ("exit", "none")


def test_a_run_reaches_the_network_only_without_isolation(supervisor, isolation, order):
    with socket.create_server(("127.0.0.1", 0)) as server:
        call = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        outcome = supervisor.run(order(*python(call)))
    assert outcome.stop == ("crash" if isolation == "auto" else "exit")


def test_a_run_writes_nowhere_but_in_its_folder(supervisor, isolation, order, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    write = f"open('own', 'w').write('x'); print(open('own').read(), flush=True); open({str(kept)!r}, 'w').write('new')"
    outcome = supervisor.run(order(*python(write)))
    assert outcome.log.startswith("x\n")
    assert kept.read_text() == ("as it was" if isolation == "auto" else "new")


def test_a_run_finds_its_folder_empty_and_named_in_its_environment(supervisor, order):
    code = "import os; print(os.getcwd() == os.environ['TMPDIR'] == os.environ['HOME'], os.listdir()); open('x', 'w')"
    assert [supervisor.run(order(*python(code))).log for _ in range(2)] == ["True []\n"] * 2


def test_solvers_in_python_report_as_usual(supervisor, order, zoo):
    outcome = supervisor.run(order(solver="good", file=zoo["good"].file))
    assert (outcome.stop, outcome.fault) == ("exit", None), outcome.log
    assert [decode(payload).kind for _, payload in outcome.messages] == ["solution", "solution", "bound", "done"]


@pytest.mark.gate
def test_one_supervisor_carries_out_many_short_runs_and_mixes_none_up(supervisor, order):
    """A run that ends at once may be found in a control group of others, with their memory."""
    codes = [i % 2 for i in range(12)]
    outcomes = [supervisor.run(order("sh", "-c", f"exit {code}")) for code in codes]
    assert Counter(outcome.stop for outcome in outcomes) == {"exit": 6, "crash": 6}
    assert max(outcome.peak_mib for outcome in outcomes) < 32.0
    assert max(outcome.cpu_s for outcome in outcomes) < 1.0


@pytest.mark.gate
def test_time_that_clearing_up_takes_is_not_the_run_s(supervisor, order):
    """BenchExec waits half a second for a process left behind."""
    began = time.monotonic()
    outcome = supervisor.run(order("sh", "-c", "sleep 30 & exit 0"))
    assert (outcome.stop, outcome.reason) == ("exit", "")
    assert time.monotonic() - began - outcome.wall_s > 0.4


@pytest.mark.parametrize("memory_mib", [0.001, 0.1, 1.0, 8.0])
def test_a_run_without_memory_to_start_breaks_its_memory_limit(supervisor, order, zoo, memory_mib):
    outcome = supervisor.run(order(solver="good", file=zoo["good"].file, memory_mib=memory_mib))
    assert (outcome.stop, outcome.messages) == ("memory", [])
    used, limit = re.fullmatch(r"used (\S+) MiB, the limit is (\S+) MiB", outcome.reason).groups()
    assert float(limit) == memory_mib <= float(used)


@pytest.mark.gate
def test_libraries_loaded_by_others_break_no_limit(supervisor, order, zoo):
    """They are in the resident memory of a run, but not charged to its control group."""
    run = order(solver="good", file=zoo["good"].file, memory_mib=512.0)
    supervisor.run(run)  # loads them
    free = supervisor.run(run).peak_mib
    for memory_mib in range(16, int(free), 3):  # they take about 20 MiB
        outcome = supervisor.run(order(solver="good", file=zoo["good"].file, memory_mib=float(memory_mib)))
        assert outcome.stop == "memory" or outcome.peak_mib <= memory_mib
        assert outcome.stop == "exit" or not any(decode(data).kind == "done" for _, data in outcome.messages)


@pytest.mark.gate
@pytest.mark.parametrize("isolation", ["auto"], indirect=True)  # otherwise its folder is on a disk
def test_memory_in_files_counts(supervisor, order):
    fill = "open('x', 'wb').write(bytes(400 << 20))"
    outcome = supervisor.run(order(*python(fill), output_mib=1000.0))
    assert outcome.stop == "memory"


@pytest.mark.parametrize("isolation", ["auto"], indirect=True)  # without namespaces only its first process dies
def test_a_run_dies_with_its_supervisor(supervisor, order, monkeypatch):
    monkeypatch.setattr(Supervisor, "_kill", lambda _: None)  # as if the referee were killed with it
    with under_way(supervisor, order) as (family, outcome):
        supervisor.process.kill()
        assert outcome.result().stop == "lost"
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []


@pytest.mark.gate
def test_nothing_is_left_of_a_run_whose_supervisor_is_killed(supervisor, order):
    with under_way(supervisor, order) as (family, outcome):
        left = groups_of(family[0].pid)
        supervisor.process.kill()
        assert outcome.result().stop == "lost"
    _, alive = psutil.wait_procs(family, timeout=20)
    assert (alive, [group for group in left if group.exists()]) == ([], [])
    assert supervisor.run(order("true")).stop == "exit"


def test_no_process_of_a_run_holds_the_standard_error_of_the_command(supervisor, order):
    """A reader of it waits for all that hold it, even for a process that no signal ends."""
    ours = os.readlink("/proc/self/fd/2")
    cancel = threading.Event()
    with under_way(supervisor, order, cancel) as (_, outcome):
        below = psutil.Process(supervisor.process.pid).children(recursive=True)
        held = [os.readlink(file) for process in below for file in Path(f"/proc/{process.pid}/fd").iterdir()]
        cancel.set()
        with pytest.raises(Cancelled):
            outcome.result()
    assert held
    assert ours not in held


def test_groups_are_found_even_if_the_supervisor_is_killed_while_making_them(tmp_path):
    """Their names are random: their prefix must be recorded before the first one is made."""
    control_groups.record([str(tmp_path / controller / "a [run]-") for controller in ("cpu", "memory")], tmp_path)
    for name in ("cpu/a [run]-x1/inner", "cpu/of others"):
        (tmp_path / name).mkdir(parents=True)
    control_groups.remove_recorded(tmp_path)
    assert [path.name for path in (tmp_path / "cpu").iterdir()] == ["of others"]


def groups_of(process):
    """Folders of the control groups that BenchExec has made and that a process is in."""
    found = []
    for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        roots = [Path("/sys/fs/cgroup", *([name] if name else [])) for name in names.split(",")]
        found += [root / path[1:] for root in roots if "/shardmark-" in path and (root / path[1:]).is_dir()]
    assert found
    return found


@pytest.mark.gate
def test_a_frozen_run_ends_at_its_limit_and_keeps_its_reports(supervisor, order):
    """No isolated run can freeze itself, but its user can; in version 1 no signal ends a frozen process."""

    def run(limit):
        token = f"shardmark-test-{os.getpid()}-{time.monotonic_ns()}"
        family = []
        with ThreadPoolExecutor(1) as pool:
            outcome = pool.submit(supervisor.run, order("sh", "-c", f"echo [0]; sleep 600; : {token}", timeout_s=limit))
            while len(family := processes_with(token)) < 2 and not outcome.done():
                time.sleep(0.05)
            left = groups_of(family[0].pid) if family else []
            for folder in [folder for group in left for folder in (group, *group.parent.glob("init_*"))]:
                freeze(folder)
        return outcome.result(), family, [group for group in left if group.exists()]

    outcome, family, left = given_time(run, lambda found: found[1], 4.0)
    assert outcome.stop == "timeout"
    assert outcome.reason.startswith("killed at the time limit of")
    assert [payload for _, payload in outcome.messages] == [b'["solution",[0]]']
    assert left == []
    assert psutil.wait_procs(family, timeout=20)[1] == []


def freeze(group):
    """Freeze the processes of a group, in either version; do nothing if it cannot be frozen."""
    for name, word in (("freezer.state", "FROZEN"), ("cgroup.freeze", "1")):
        if (group / name).exists():
            (group / name).write_text(word)


def test_a_run_that_cannot_be_ended_is_an_error_and_blocks_nothing(monkeypatch):
    """BenchExec waits for a process that no signal ends, such as one that waits for a disk."""
    monkeypatch.setattr(benchexec_backend, "CLEAR_UP_S", 0.1)
    release = threading.Event()
    executor = SimpleNamespace(execute_run=lambda **_: release.wait(60) and {}, groups=())
    executor.SUB_PROCESS_PIDS, executor.SUB_PROCESS_PIDS_LOCK = set(), threading.Lock()
    run = benchexec_backend.BenchexecRun(executor, {"workingDir": ".", "memlimit": 1}, [], {}, lambda: "")
    assert run.ended() is None
    assert run.finish().unended
    run.exited_at = time.monotonic() - 1.0
    assert run.ended() == -signal.SIGKILL
    release.set()
    run.thread.join()


def processes_with(token):
    """Return the process, not the supervisor, whose arguments hold the token, and its descendants."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name() == "sh" and any(token in word for word in process.cmdline()):
                return [process, *process.children(recursive=True)]
    return []


@pytest.mark.parametrize("isolation", ["auto"], indirect=True)
def test_root_regains_no_rights_if_benchexec_finds_no_library_for_filters(order, monkeypatch, isolation):
    monkeypatch.setenv("SHARDMARK_ENVIRONMENT", "LIBSECCOMP")
    monkeypatch.setenv("LIBSECCOMP", "missing")
    with Supervisor("benchexec", isolation) as supervisor:
        outcome = supervisor.run(order(*python("print(open('/proc/self/status').read())")))
    assert re.findall(r"^Cap(?:Prm|Eff|Inh|Amb):\s+(\w+)", outcome.log, re.MULTILINE) == ["0" * 16] * 4


def test_a_refusal_by_benchexec_is_reported(supervisor, order):
    outcome = supervisor.run(order("true", memory_mib=0.0))
    assert (outcome.stop, outcome.reason) == ("error", "BenchExec: Invalid memory limit 0")
    assert supervisor.run(order("true")).stop == "exit"
