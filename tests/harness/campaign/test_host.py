"""Facts of a machine and its disturbances."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from shardmark.harness.campaign import host
from shardmark.harness.campaign.host import Disturbances, facts

HEAT = "sys/devices/system/cpu/cpu1/thermal_throttle"
HELD_BACK = "Scheduler periods in which a quota on CPU time throttled this machine:"
QUIET = {
    "proc/stat": "cpu  100 0 50 1000 5 0 1 7 0 0\ncpu0 100 0 50 1000 5 0 1 7 0 0\nintr 5\n",
    "proc/pressure/cpu": "some avg10=61.88 avg60=6.68 avg300=1.89 total=5000000\nfull avg10=0.00 total=0\n",
    "proc/vmstat": "nr_free_pages 1\npswpin 3\npswpout 4\noom_kill 2\n",
    "proc/self/cgroup": "0::/user.slice/session: 1.scope\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    "sys/fs/cgroup/user.slice/cpu.stat": "usage_usec 9\nnr_periods 8\nnr_throttled 0\nthrottled_usec 0\n",
    "sys/fs/cgroup/user.slice/session: 1.scope/cpu.stat": "usage_usec 9\n",
    f"{HEAT}/core_throttle_count": "5\n",
    f"{HEAT}/package_throttle_count": "5\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    """Write files below a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The files of a machine on which nothing happens."""
    return write(tmp_path, QUIET)


def test_no_disturbance_is_found_if_little_or_nothing_happened(machine: Path) -> None:
    disturbances = Disturbances(machine)
    assert disturbances.found() == []
    write(machine, {"proc/stat": QUIET["proc/stat"].replace("1000 5 0 1 7", "2000 5 0 1 12")})
    assert disturbances.found() == []


@pytest.mark.parametrize(
    ("name", "old", "new", "sentence"),
    [
        (f"{HEAT}/core_throttle_count", "5", "6", "The processor was throttled because of heat: cpu1."),
        (f"{HEAT}/package_throttle_count", "5", "9", "The processor was throttled because of heat: cpu1."),
        ("sys/fs/cgroup/user.slice/cpu.stat", "throttled 0", "throttled 12", f"{HELD_BACK} 12."),
        ("proc/vmstat", "pswpin 3", "pswpin 515", "The system swapped: 2.0 MiB came in, 0.0 MiB went out."),
        ("proc/vmstat", "pswpout 4", "pswpout 260", "The system swapped: 0.0 MiB came in, 1.0 MiB went out."),
        (
            "proc/vmstat",
            "oom_kill 2",
            "oom_kill 5",
            "Processes that the system killed for lack of memory: 3, of which 0 were runs.",
        ),
        (
            "proc/stat",
            "1000 5 0 1 7",
            "1095 5 0 1 12",
            "5.0 % of the CPU time was stolen by the host of this virtual machine.",
        ),
    ],
)
def test_every_disturbance_is_a_sentence(
    machine: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str, sentence: str
) -> None:
    monkeypatch.setattr(host, "PAGE_MIB", 4096 / 2**20)
    disturbances = Disturbances(machine)
    assert old in QUIET[name]
    write(machine, {name: QUIET[name].replace(old, new)})
    assert disturbances.found() == [sentence]


def test_runs_killed_for_their_memory_are_no_disturbance(machine: Path) -> None:
    disturbances = Disturbances(machine)
    write(machine, {"proc/vmstat": QUIET["proc/vmstat"].replace("oom_kill 2", "oom_kill 4")})
    assert disturbances.found(killed=2) == []
    assert len(disturbances.found(killed=1)) == 1


def test_quotas_of_the_older_control_groups_are_seen(tmp_path: Path) -> None:
    v1 = {
        "proc/self/cgroup": "4:memory:/m\n2:cpu,cpuacct:/box\n0::/\n",
        "sys/fs/cgroup/cpu/box/cpu.stat": "nr_periods 8\nnr_throttled 1\nthrottled_time 0\n",
    }
    disturbances = Disturbances(write(tmp_path, v1))
    write(tmp_path, {"sys/fs/cgroup/cpu/box/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 5\n"})
    assert disturbances.found() == [f"{HELD_BACK} 1."]


def test_a_machine_without_counters_has_no_disturbances(tmp_path: Path) -> None:
    assert Disturbances(tmp_path).found() == []


WAITED = "During up to {} % of the time a process had to wait for a CPU because of other programs."


@pytest.mark.parametrize(
    ("waited_s", "busy_s", "own_s", "sentences"),
    [
        (9, 90, 0, []),
        (30, 90, 20, [WAITED.format(30)]),
        (82, 100, 95, []),  # threads of the runs waited for each other
        (82, 100, 75, [WAITED.format(25)]),
    ],
)
def test_waiting_for_other_programs_is_reported_above_a_tenth_of_the_time(
    machine: Path, monkeypatch: pytest.MonkeyPatch, waited_s: int, busy_s: int, own_s: int, sentences: list[str]
) -> None:
    clock, own = iter([1000.0, 1100.0]), iter([5.0, 5.0 + own_s])
    monkeypatch.setattr(host, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(host, "_own_cpu", lambda: next(own))
    disturbances = Disturbances(machine)
    ticks = 100 + busy_s * os.sysconf("SC_CLK_TCK")
    write(
        machine,
        {
            "proc/stat": QUIET["proc/stat"].replace("cpu  100", f"cpu  {ticks}"),
            "proc/pressure/cpu": QUIET["proc/pressure/cpu"].replace("5000000", f"{5000000 + waited_s * 10**6}"),
        },
    )
    assert disturbances.found() == sentences


def test_own_cpu_time_includes_descendants_that_have_ended() -> None:
    before = host._own_cpu()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"])
    assert host._own_cpu() - before >= 0.3


@pytest.mark.parametrize(
    ("name", "rubbish"),
    [
        *(
            ("pressure/cpu", text)
            for text in ("", "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", "some 1 2 3 4\n")
        ),
        *(("stat", text) for text in ("", "cpu 1 2\n", "cpu a b c d e f g h\n")),
    ],
)
def test_a_counter_that_cannot_be_read_is_reported(machine: Path, name: str, rubbish: str) -> None:
    disturbances = Disturbances(machine)
    write(machine, {f"proc/{name}": rubbish})
    assert disturbances.found() == [f"/proc/{name} could not be read (its form is unknown)."]
    (machine / "proc" / name).unlink()
    (machine / "proc" / name).mkdir()
    assert disturbances.found() == [f"/proc/{name} could not be read (Is a directory)."]


def test_counters_of_this_machine_can_be_read() -> None:
    disturbances = Disturbances()
    assert not any("could not be read" in sentence for sentence in disturbances.found())
    if Path("/proc/stat").exists():
        assert disturbances.before["time"] > 0


def test_facts_of_this_machine_are_plain_and_true() -> None:
    found = facts()
    assert json.loads(json.dumps(found)) == found
    assert found["cores"] == len(os.sched_getaffinity(0))
    assert found["memory_mib"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    assert found["cgroup"] in (None, 1, 2)
    assert os.uname().release in found["kernel"]
    assert found["packages"]["numpy"]


def test_facts_include_governor_and_turbo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        f"{host.CPUS}/cpu0/cpufreq/scaling_governor": "performance\n",
        f"{host.CPUS}/cpu1/cpufreq/scaling_governor": "powersave\n",
        f"{host.CPUS}/intel_pstate/no_turbo": "1\n",
        "sys/fs/cgroup/cgroup.controllers": "cpu\n",
    }
    monkeypatch.setattr(host, "ROOT", write(tmp_path, files))
    found = facts()
    assert (found["governor"], found["turbo"], found["cgroup"]) == ("performance, powersave", False, 2)


def test_the_version_names_the_commit_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "CHECKOUT", tmp_path)
    released = host.version()
    assert "+" not in released

    def git(*words: str) -> None:
        own = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *own, "-C", tmp_path, *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "first")
    assert re.fullmatch(re.escape(released) + r"\+g[0-9a-f]{12}", host.version())
    (tmp_path / "file").write_text("two")
    assert host.version().endswith(".dirty")
