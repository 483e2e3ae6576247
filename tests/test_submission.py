"""Pull requests, replayed with the workflows' own steps: who cheats is named, nothing leaks, the honest pass."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cheats import CHEATS
from fake_github import NUMBER, PROJECT, GitHub, git
from referee import needs_isolation

from shardmark.cli.submission import summary

ROOT = Path(__file__).parents[1]
SECRET = "ghs_4wXplanted0to0be0found7Qz"
TRACK = "solvers/pipeline"
OPTIONS = "--suite smoke --sample 0 --limits posix"  # which starts runs ten times as fast as `benchexec`

HONEST = '''"""honest: one stage holds all nodes."""

from shardmark import solver


@solver(track="pipeline", source="folklore")
def honest(instance, run):
    """Put every node into the first stage."""
    return [0] * instance.nodes
'''

#: A solver of `hybrid`, as the methods that are run beside it take least time on small instances.
HYBRID = '''"""one-device: the whole model on one device."""

from shardmark import Declined, solver


@solver(track="hybrid", source="folklore")
def one_device(instance, run):
    """Put all nodes on one device, each in the configuration that keeps least in memory."""
    kept = instance.stashed.copy()
    kept[instance.degree > 1] = float("inf")
    chosen = [start + int(kept[start:stop].argmin()) for start, stop in zip(instance.start, instance.start[1:])]
    if (kept + instance.fixed + instance.shared)[chosen].sum() > instance.memory:
        raise Declined("one device is too small")
    kinds = [instance.kinds[instance.kind[c]] for c in chosen]
    return {"stage": [0] * instance.nodes, "configuration": kinds, "data_parallel": [1], "tensor_parallel": [1]}
'''

#: Files that are refused or not reviewed, with what the review says of them.
ODD = {
    f"{TRACK}/json.py": "`solvers/pipeline/json.py` has the name of a Python module",
    f"{TRACK}/numpy.py": "`solvers/pipeline/numpy.py` has the name of a Python module",
    f"{TRACK}/linked.py": "`solvers/pipeline/linked.py` is a symbolic link or a submodule",
    f"{TRACK}/runnable.py": "`solvers/pipeline/runnable.py` is executable",
    f"{TRACK}/large.py": "`solvers/pipeline/large.py` is too large",
    f"{TRACK}/early.py": "`solvers/pipeline/early.py` runs code when it is imported",
    f"{TRACK}/named.py": "`solvers/pipeline/named.py` has a name that files of its kind do not have",
    f"{TRACK}/annealing.py": "`solvers/pipeline/annealing.py` changes or deletes a file of the project",
    "records/solutions/README.md": "`records/solutions/README.md` has a name that files of its kind do not have",
    "records/history.jsonl": "`records/history.jsonl` changes earlier lines",
    "harness/verify/pipeline.py": "`harness/verify/pipeline.py`: not a solver, an instance or a record",
    "Makefile": "`Makefile`: not a solver, an instance or a record",
    "review/summary.json": "`review/summary.json`: not a solver, an instance or a record",
    "solvers/pipeline/_helpers.py": "`solvers/pipeline/_helpers.py`: not a solver, an instance or a record",
}


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A server on this machine: its port, and what reached it."""
    reached: list[bytes] = []

    def answer(server: socket.socket) -> None:
        while True:
            try:
                link, _ = server.accept()
            except OSError:
                return
            reached.append(link.recv(100))
            link.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        yield server.getsockname()[1], reached


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> GitHub:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git, and the checkout to clone")
    return GitHub(tmp_path_factory.mktemp("github"), secret=SECRET)


def write_odd_files(fork: Path) -> None:
    """Write the files of `ODD` into a clone."""
    for name in ODD:
        path = fork / name
        path.parent.mkdir(exist_ok=True)
        if name.endswith("linked.py"):
            path.symlink_to("/etc/passwd")
        elif name.endswith("large.py"):
            path.write_text(f"{HONEST}\n{'#' * (1 << 18)}")
        elif name.endswith("named.py"):
            path.write_text(HONEST.replace('source="folklore"', f'source="folklore", name="{"x" * 101}"'))
        elif name.endswith("early.py"):
            path.write_text(f"{HONEST}\nprint(open('/etc/passwd').read())\n")
        elif name.endswith("history.jsonl"):
            path.write_text(path.read_text().replace('"by": "Shardmark"', '"by": "Mallory"', 1))
        else:
            path.write_text(f"{HONEST}\n# all mine\n")
    (fork / TRACK / "runnable.py").chmod(0o755)


def submission(cost: float) -> str:
    """What an honest contributor says, with the cost on one instance as told."""
    rows = [{"instance": "hybrid-lstm-4", "cost": 8}, {"instance": "trade", "cost": cost}]
    return json.dumps({"format": "shardmark/submission/1", "solvers": [{"name": "one-device", "instances": rows}]})


@needs_isolation
@pytest.mark.gate
def test_cheats_are_found_and_named_and_nothing_leaks(github: GitHub, listener: tuple[int, list[bytes]]):
    """One pull request with a solver for each way of cheating, and files that try to get in beside them."""
    port, reached = listener
    fork, clone = github.fork, github.folder / "clone"
    git(fork, "checkout", "--quiet", "-b", "cheats", "main")
    for cheat in CHEATS:
        text = cheat.text().replace("{port}", str(port))
        (fork / TRACK / f"{cheat.name.replace('-', '_')}.py").write_text(text)
    write_odd_files(fork)
    git(fork, "add", "--all", "--force")
    git(fork, "commit", "--quiet", "-m", "Add the best solvers")
    base, head = github.propose("cheats")
    done = github.review(base, head, clone, OPTIONS)
    assert [step.status for step in done if step.name == "review"] == [2], done[-2].output

    found = summary.read((clone / "review" / "summary.json").read_bytes())
    told = (github.folder / "runner-submission" / "github_step_summary").read_text()
    lines = told.splitlines()
    for cheat in CHEATS:
        mine = [line for line in lines if line.startswith(f"- `{cheat.name}`")]
        assert re.search(cheat.found, "\n".join(mine)), (cheat.name, mine)
    assert [name for name, words in ODD.items() if f"- {words}" not in told] == []
    assert {solver["name"] for solver in found["solvers"]} == {cheat.name for cheat in CHEATS}
    assert "`socket`" in told
    assert reached == []
    assert git(clone, "status", "--porcelain") == "?? review/"
    planted = [clone / ".git" / "config", github.folder / "home" / ".netrc"]
    assert [path for path in planted if SECRET not in path.read_text()] == []
    everything = [step.output for step in done]
    everything += [path.read_text(errors="replace") for path in (github.folder / "runner-submission").iterdir()]
    everything += [path.read_text(errors="replace") for path in (clone / "review").iterdir()]
    assert [text for text in everything if SECRET in text] == []
    assert SECRET.encode() not in (github.folder / "artifact.zip").read_bytes()
    assert github.calls() == []  # nothing is posted by who runs the code

    files = git(fork, "diff", "--name-only", base, head).splitlines()
    assert [step.status for step in github.comment(base, head, github.folder / "poster", files, [])] == [0]
    *asked, (method, address, sent) = github.calls()
    assert {call[0] for call in asked} == {"GET"}
    assert (method, address) == ("POST", f"repos/{PROJECT}/issues/{NUMBER}/comments")
    assert told.strip() in json.loads(sent)["body"]
    assert SECRET not in sent


@needs_isolation
@pytest.mark.gate
def test_an_honest_pull_request_passes_and_its_comment_is_written_again(github: GitHub):
    """A solver with its submission, and an instance; the comment of an earlier review is replaced."""
    fork, clone = github.fork, github.folder / "clone"
    git(fork, "checkout", "--quiet", "-b", "honest", "main")
    (fork / "solvers" / "hybrid" / "one_device.py").write_text(HYBRID)
    (fork / "submissions").mkdir()
    (fork / "submissions" / "one-device.json").write_text(submission(18.0))
    add_instance(fork)
    git(fork, "add", "--all")
    git(fork, "commit", "--quiet", "-m", "Add one-device")
    base, head = github.propose("honest")
    for _ in range(3):  # a busy machine can be too slow for the check of the deadline
        done = github.review(base, head, clone, OPTIONS)
        if not any(step.status for step in done):
            break
    assert [(step.name, step.status) for step in done if step.status] == [], done[-2].output

    found = summary.read((clone / "review" / "summary.json").read_bytes())
    assert (found["outcome"], found["left"]) == ("passed", [])
    (solver,) = found["solvers"]
    assert {(run["instance"], run["status"], run["value"]) for run in solver["runs"]} == {
        ("trade", "ok", 18),
        ("trade-step", "ok", 72),
    }
    assert {row["solver"] for row in solver["ranking"]} > {"one-device", "dp"}
    mine = {row["division"]: row["shares"] for row in solver["profile"] if row["solver"] == "one-device"}
    assert mine["throughput"] == [0, 0, 0, 0, 0, 0, 0, 0, 1]  # 18 / 8
    assert mine["step"] == [0, 0, 0, 0, 0, 0, 0, 1, 1]  # 72 / 38
    claims = {claim["instance"]: claim["result"] for claim in solver["claims"]}
    assert claims == {"trade": "confirmed", "hybrid-lstm-4": "claimed"}
    (instance,) = found["instances"]
    assert instance["tried_by"] >= instance["solved_by"] > 0

    before = len(github.calls())
    files = git(fork, "diff", "--name-only", base, head).splitlines()
    mark = "<!-- shardmark review -->\nthe review of an earlier commit"
    comments = [
        {"id": 1, "user": {"login": "mallory"}, "body": mark},
        {"id": 2, "user": {"login": "github-actions[bot]"}, "body": mark},
    ]
    github.comment(base, head, github.folder / "poster", files, comments)
    *asked, (method, address, sent) = github.calls()[before:]
    assert {call[0] for call in asked} == {"GET"}
    assert (method, address) == ("PATCH", f"repos/{PROJECT}/issues/comments/2")
    assert "no check failed" in json.loads(sent)["body"]


def add_instance(fork: Path) -> None:
    """Add an instance to a clone, with its entry in the catalog."""
    text = (fork / "instances" / "data" / "hybrid" / "trade.json").read_text().replace("trade", "new-trade")
    (fork / "instances" / "data" / "hybrid" / "new-trade.json").write_text(text)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    entry = f'id = "new-trade"\ntrack = "hybrid"\npath = "hybrid/new-trade.json"\nchecksum = "sha256:{checksum}"\n'
    with (fork / "instances" / "catalog.toml").open("a") as catalog:
        catalog.write(f'\n[[instances]]\n{entry}time_limit_s = 2\nsuites = ["standard"]\n')
