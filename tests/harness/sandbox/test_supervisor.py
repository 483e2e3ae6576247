"""The supervisor and its client: however either ends, nothing is left behind and the next run works."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest
from marked import until
from orders import order_of
from referee import ISOLATION

from shardmark.harness.sandbox import supervisor as module
from shardmark.harness.sandbox.contract import Cancelled, Limits
from shardmark.harness.sandbox.link import receive, send
from shardmark.harness.sandbox.supervisor import Supervisor

pytestmark = pytest.mark.gate(cases=1)

SLEEPS = "run.report([0, 0])\nif os.fork() == 0: os.setsid()\ntime.sleep(600)"
LIMITS = Limits(timeout_s=60.0, memory_mib=512.0)


@pytest.fixture(params=ISOLATION)
def supervisor(request):
    with Supervisor("posix", request.param) as one:
        yield one


@pytest.fixture
def cancel():
    return threading.Event()


def under_way(supervisor: Supervisor, order, cancel=None, wanted=2) -> tuple[threading.Thread, list]:
    """Begin a run in a thread and wait for its processes; return the thread and a list for the outcome.

    With ``wanted`` 0, do not wait: the run begins by starting its supervisor.
    """
    found: list = []
    if wanted:
        supervisor._connect(order.limits.cores, cancel)

    def run() -> None:
        try:
            found.append(supervisor.run(order, cancel))
        except Cancelled as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: supervisor.process is not None and len(descendants(supervisor)) >= wanted)
    return thread, found


def descendants(supervisor: Supervisor) -> list[psutil.Process]:
    """All processes below a supervisor."""
    try:
        return psutil.Process(supervisor.process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def gone(processes: list[psutil.Process]) -> bool:
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


@pytest.mark.gate
def test_a_supervisor_that_is_killed_takes_its_run_with_it(supervisor, tmp_path):
    thread, found = under_way(supervisor, order_of(tmp_path, SLEEPS, limits=LIMITS))
    left, folder = descendants(supervisor), supervisor.folder
    os.kill(supervisor.process.pid, signal.SIGKILL)
    thread.join(30)
    assert (found[0].stop, found[0].reason.split(" (")[0]) == ("lost", "its supervisor ended")
    until(lambda: gone(left))
    assert not Path(folder).exists()
    assert supervisor.run(order_of(tmp_path, "run.report([0, 1])")).stop == "exit"


@pytest.fixture
def impatient(monkeypatch):
    """Give up a started supervisor as soon as the time limit of its run is over."""

    def impatient(supervisor: Supervisor) -> Limits:
        supervisor._connect(1, None)
        monkeypatch.setattr(module, "GRACE_S", 0.0)
        return Limits(3.0, 512.0)

    return impatient


@pytest.mark.gate
def test_a_supervisor_that_is_stopped_is_given_up(supervisor, tmp_path, impatient, monkeypatch):
    thread, found = under_way(supervisor, order_of(tmp_path, SLEEPS, limits=impatient(supervisor)))
    left = descendants(supervisor)
    os.kill(supervisor.process.pid, signal.SIGSTOP)
    thread.join(30)
    assert found[0].stop == "lost"
    until(lambda: gone(left))
    monkeypatch.undo()
    assert supervisor.run(order_of(tmp_path, "run.report([0, 1])")).stop == "exit"


@pytest.mark.gate
@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_a_bare_run_that_attacks_its_supervisor_is_lost(tmp_path, impatient, monkeypatch, number):
    body = f"""
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(writer, str(os.getpid()).encode())
                time.sleep(600)
            os._exit(0)
        os.wait()
        with open({str(tmp_path / "daemon")!r}, "wb") as file:
            file.write(os.read(reader, 99))
        os.kill(os.getppid(), signal.{number})
        time.sleep(600)
    """
    with Supervisor("posix", "none") as supervisor:
        outcome = supervisor.run(order_of(tmp_path, body, limits=impatient(supervisor)))
        assert outcome.stop == "lost"
        daemon = int((tmp_path / "daemon").read_text())
        with contextlib.suppress(psutil.NoSuchProcess):
            until(lambda: psutil.Process(daemon).status() == psutil.STATUS_ZOMBIE)
        monkeypatch.undo()
        assert supervisor.run(order_of(tmp_path, "run.report([0, 1])")).stop == "exit"


REFEREE = """
import sys
from shardmark.harness.sandbox.contract import Order
from shardmark.harness.sandbox.supervisor import Supervisor
import json
order = Order.from_json(json.loads(sys.argv[2]))
with Supervisor("posix", sys.argv[1]) as supervisor:
    supervisor._start(1)
    print(supervisor.folder, supervisor.process.pid, flush=True)
    supervisor.run(order)
"""


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_referee_that_is_killed_takes_everything_with_it(isolation, tmp_path):
    order = order_of(tmp_path, SLEEPS, limits=LIMITS)
    fields = json.dumps(asdict(order))
    command = [sys.executable, "-c", REFEREE, isolation, fields]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as referee:
        folder, pid = referee.stdout.readline().split()
        watcher = psutil.Process(int(pid))
        until(lambda: len(watcher.children(recursive=True)) >= 2)
        left = [watcher, *watcher.children(recursive=True)]
        referee.kill()
    until(lambda: gone(left))
    assert not Path(folder).exists()


def test_a_cancelled_run_ends_at_once(supervisor, tmp_path, cancel):
    thread, found = under_way(supervisor, order_of(tmp_path, SLEEPS, limits=LIMITS), cancel)
    left, folder = descendants(supervisor), supervisor.folder
    cancel.set()
    thread.join(20)
    assert isinstance(found[0], Cancelled)
    until(lambda: gone(left))
    assert not Path(folder).exists()


def test_a_supervisor_that_cannot_be_started_loses_its_run(supervisor, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(module.subprocess, "Popen", refuse)
    outcome = supervisor.run(order_of(tmp_path, "run.report([0, 1])"))
    reason = "no supervisor could be started ([Errno 11] Resource temporarily unavailable)"
    assert (outcome.stop, outcome.reason) == ("lost", reason)
    monkeypatch.undo()
    assert supervisor.run(order_of(tmp_path, "run.report([0, 1])")).stop == "exit"


#: A supervisor that reports ready, takes one order, and runs the code in its second argument.
FAKE = """
import json, socket, struct, sys, time
def say(text):
    link.sendall(struct.pack(">I", len(text)) + text.encode())
link = socket.socket(fileno=int(sys.argv[1]))
say('{"error": "", "sizes": []}')
link.recv(1 << 16)
exec(sys.argv[2])
time.sleep(600)
"""
ANSWER = json.dumps({"stop": "exit", "reason": "by the fake", "retire": False, "arrivals": [], "sizes": []})


@pytest.fixture
def instead(monkeypatch):
    """Start other programs instead of the first supervisors; return all that were started."""
    popen, started = subprocess.Popen, []

    def replace(*programs: tuple[str, ...]) -> list[subprocess.Popen]:
        waiting = [[sys.executable, "-I", "-S", "-c", *program] for program in programs]

        def start(command, **more):
            if "shardmark.harness.sandbox.supervisor" in command:
                command = [*waiting.pop(0), command[-1]] if waiting else command
                started.append(popen(command, **more))
                return started[-1]
            return popen(command, **more)

        monkeypatch.setattr(module.subprocess, "Popen", start)
        return started

    return replace


def fake(deed: str) -> tuple[str, ...]:
    """Return the command of a supervisor that does ``deed`` with its first order."""
    return (f"import sys\nsys.argv.append({deed!r})\n{FAKE}",)


@pytest.mark.thorough(cases=4)
@pytest.mark.parametrize(
    "deed",
    [
        pytest.param("say('{]}')", id="no JSON"),
        pytest.param("say('3')", id="a number"),
        pytest.param("say('[]')", id="a list"),
        pytest.param("say('[' * 100000)", id="nested deeply"),
        pytest.param("link.sendall(struct.pack('>I', 1) + bytes([255]))", id="no text"),
        pytest.param("say('{}')", id="no sizes"),
        pytest.param('say(\'{"sizes": ["1"]}\')', id="a size in words"),
        pytest.param("say('{\"sizes\": []}')", id="no outcome"),
        pytest.param(f"say({ANSWER.replace('reason', 'reeson')!r})", id="unknown fields"),
    ],
)
def test_a_supervisor_with_a_malformed_reply_loses_its_run_and_is_ended(tmp_path, instead, deed):
    started = instead(fake(deed))
    order = order_of(tmp_path, "run.report([0, 1])")
    with Supervisor("posix", "none") as supervisor:
        outcome = supervisor.run(order)
        assert outcome.stop == "lost"
        assert outcome.reason.startswith("its supervisor ended (it sent a malformed reply: ")
        assert started[0].returncode == -signal.SIGKILL
        assert supervisor.run(order).stop == "exit"
    assert len(started) == 2


@pytest.mark.parametrize("after", ["link.close(); sys.exit()", "say('more')"], ids=["ends", "says more"])
def test_a_supervisor_that_does_not_wait_for_its_next_order_is_replaced(tmp_path, instead, after):
    started = instead(fake(f"say({ANSWER!r}); {after}"))
    order = order_of(tmp_path, "run.report([0, 1])")
    with Supervisor("posix", "none") as supervisor:
        assert supervisor.run(order).reason == "by the fake"
        until(lambda: select.select([supervisor.socket], [], [], 0)[0])
        outcome = supervisor.run(order)
        assert (outcome.stop, len(outcome.messages)) == ("exit", 2), outcome.reason
    assert started[0].returncode is not None
    assert len(started) == 2


def test_if_a_supervisor_ends_at_its_start_another_is_tried(tmp_path, instead):
    started = instead(("raise SystemExit(3)",))
    with Supervisor("posix", "none") as supervisor:
        outcome = supervisor.run(order_of(tmp_path, "run.report([0, 1])"))
    assert outcome.stop == "exit", outcome.reason
    assert [process.returncode for process in started] == [3, 0]


def test_if_two_supervisors_do_not_start_the_run_is_lost(tmp_path, instead, monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 0.2)
    started = instead(*[("import time; time.sleep(600)",)] * 3)
    with Supervisor("posix", "none") as supervisor:
        outcome = supervisor.run(order_of(tmp_path, "run.report([0, 1])"))
    assert (outcome.stop, outcome.reason) == ("lost", "no supervisor could be started (no reply)")
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


def test_a_supervisor_that_does_not_start_can_be_cancelled(supervisor, tmp_path, monkeypatch, cancel):
    thread, found = under_way(supervisor, order_of(tmp_path, SLEEPS, limits=LIMITS), cancel, wanted=0)
    os.kill(supervisor.process.pid, signal.SIGSTOP)
    cancel.set()
    monkeypatch.setattr(module, "GRACE_S", 0.5)
    thread.join(20)
    assert isinstance(found[0], Cancelled)


class Failing:
    """A backend that starts no run."""

    name = "failing"
    isolated = False

    def start(self, *_):
        raise KeyError("PATH")


def test_an_outcome_names_the_backend_that_could_not_start_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(module.gc, "freeze", lambda: None)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(theirs, asdict(order_of(tmp_path)) | {"watched": False})
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(EOFError):
            module.serve(ours, Failing(), tmp_path)
        assert receive(theirs)[0] == {"error": ""}
        found = receive(theirs)[0]
    assert (found["stop"], found["backend"], found["retire"]) == ("error", "failing", True)


def test_a_run_that_a_backend_fails_to_start_is_an_error_that_says_so(tmp_path):
    control, other = os.pipe()
    with pytest.raises(module.BackendError, match=r"^failing: the run cannot be started \(KeyError\('PATH'\)\)$"):
        module.carry_out(order_of(tmp_path), Failing(), tmp_path, control)
    os.close(control)
    os.close(other)


def test_folders_nested_deeper_than_python_follows_are_deleted(tmp_path):
    deep = tmp_path / "deep"
    deep.mkdir()
    with contextlib.chdir(deep):
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
    module.remove(deep)
    assert not deep.exists()


def test_one_supervisor_does_many_runs_and_leaves_no_files(supervisor, tmp_path):
    order = order_of(tmp_path, "open('note', 'w').write('x')\nrun.report([0, 1])")
    pids = set()
    for _ in range(5):
        assert supervisor.run(order).stop == "exit"
        pids.add(supervisor.process.pid)
        assert [path.name for path in Path(supervisor.folder).iterdir()] in ([], ["scratch"])
    assert len(pids) == 1


@pytest.mark.gate
def test_a_supervisor_that_has_grown_is_replaced(supervisor, tmp_path):
    order = order_of(tmp_path, "run.send('solution', 'x' * (40 << 20))", limits=LIMITS)
    outcome = supervisor.run(order)
    assert len(outcome.messages[0][1]) > 40 << 20
    assert supervisor.process is None
    assert supervisor.run(order_of(tmp_path, "run.report([0, 1])")).peak_mib < 60


@pytest.mark.gate
def test_another_number_of_cores_takes_another_supervisor(supervisor, tmp_path):
    body = "print(os.environ['OMP_NUM_THREADS'], sys.flags.hash_randomization)"
    assert supervisor.run(order_of(tmp_path, body)).log == "1 0\n"
    assert supervisor.run(order_of(tmp_path, body, limits=Limits(20.0, 512.0, cores=2))).log == "2 0\n"


def test_an_instance_that_has_gone_is_an_error_that_names_it(supervisor, tmp_path):
    order = order_of(tmp_path, "run.report([0, 1])")
    Path(order.instance).unlink()
    outcome = supervisor.run(order)
    text = outcome.reason + outcome.messages[-1][1].decode() if outcome.messages else outcome.reason
    assert order.instance in text
    assert "expected a file" in text or "No such file" in text


def test_a_run_that_is_not_isolated_gets_its_own_copy_of_the_instance(tmp_path):
    body = """
        frame = sys._getframe()
        while "order" not in frame.f_locals:
            frame = frame.f_back
        path = frame.f_locals["order"].instance
        open(path, "w").write("spoiled")
        os.unlink(path)
        run.report([0, 1])
    """
    order = order_of(tmp_path, body)
    before = Path(order.instance).read_bytes()
    with Supervisor("posix", "none") as supervisor:
        outcome = supervisor.run(order)
    assert (outcome.stop, outcome.enforced["files"], outcome.enforced["network"]) == ("exit", "none", "none")
    assert Path(order.instance).read_bytes() == before


def test_only_needed_environment_variables_are_passed_on(supervisor, tmp_path, monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("LICENCE_FILE", "/a/place")
    monkeypatch.setenv("SHARDMARK_ENVIRONMENT", "LICENCE_FILE")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    body = "print(*sorted(os.environ))\nprint(b'secret' in open('/proc/self/environ', 'rb').read())"
    names, leaked = supervisor.run(order_of(tmp_path, body)).log.splitlines()
    assert {"PATH", "LC_ALL", "LICENCE_FILE", "HOME", "TMPDIR", "OMP_NUM_THREADS"} <= set(names.split())
    assert "API_KEY" not in names.split()
    assert leaked == "False"
