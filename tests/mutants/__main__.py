"""Draw mutants of the product, run the tests that can notice them, and list those that no test notices.

``python -m tests.mutants --draws 200 --c 50 --seed 0`` writes one JSON line per mutant to build/mutants/mutants.jsonl,
and skips those that are there already; ``--again`` repeats those that survived, for use after a test was added. The
first call records which functions each test calls: about ten minutes. Remove build/mutants/tests.jsonl to record again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from tests.mutants import kernels, python_sites
from tests.mutants.python_sites import Site
from tests.mutants.selection import ROOMS, Record, cheapest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutants"
#: Tests that need a browser, a second machine, or minutes.
LEFT_OUT = ("leaderboard/browser", "leaderboard/test_kill.py", "harness/campaign/test_kill.py", "fuzz/test_medium.py")
#: CPU seconds of a stage, as a multiple of those in the record and in addition; more kills the mutant.
TIMES, MORE_S = 3, 20
MEMORY = 8 * 2**30  # bytes of a test run with its children; more kills the mutant, which may allocate without end


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=200, metavar="N", help="mutants of Python (default: 200)")
    parser.add_argument("--c", type=int, default=50, metavar="N", help="mutants of the C core (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws others (default: 0)")
    parser.add_argument(
        "--budget", type=float, default=60, metavar="S", help="CPU seconds per stage: the cheapest tests"
    )
    parser.add_argument("--without", action="append", default=[], metavar="PATH", help="a file to leave out")
    parser.add_argument("--again", action="store_true", help="repeat those that survived")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawn = [
        *draw([path for room in ROOMS for path in files(room, "*.py", options.without)], options.draws, options.seed),
        *draw(files("c_src", "*.[ch]", options.without), options.c, options.seed),
    ]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copied(Path(folder) / "tree")
        if not (FOLDER / "tests.jsonl").exists():
            record(tree, FOLDER / "tests.jsonl")
        if options.c:
            tree.core.build()
        done = results(FOLDER / "mutants.jsonl")
        known = Record(FOLDER / "tests.jsonl", tree.root)
        for number, site in enumerate(drawn, 1):
            before = done.get(key(site))
            if before is None or (options.again and before["status"] == "survived"):
                line = tree.judged(site, known, options.budget)
                done[key(site)] = line
                with (FOLDER / "mutants.jsonl").open("a") as file:
                    file.write(f"{json.dumps(line)}\n")
                print(f"{number}/{len(drawn)} {shown(line)}", flush=True)
    print(summary([done[key(site)] for site in drawn]))


def files(room: str, pattern: str, without: list[str]) -> list[str]:
    """Return the product's files of a room, paths from the root."""
    paths = (str(path.relative_to(ROOT)) for path in sorted((ROOT / room).rglob(pattern)))
    return [path for path in paths if path not in (*without, "c_src/build.py", "instances/files/_reader.c")]


def draw(paths: list[str], count: int, seed: int) -> list[Site]:
    """Draw lines evenly, one mutant of each: its kind evenly, then its place.

    A draw depends on a line's text and not on its place, so that an edit elsewhere leaves the others as they are.
    """
    lines: dict[tuple[str, ...], list[Site]] = {}
    for path in paths:
        source = (ROOT / path).read_text()
        texts = source.split("\n")
        module = python_sites if path.endswith(".py") else kernels
        seen: Counter[str] = Counter()
        numbers: dict[int, tuple[str, ...]] = {}
        for site in sorted(module.sites(source, path), key=lambda site: site.line):
            text = texts[site.line - 1].strip()
            if site.line not in numbers:
                seen[text] += 1
                numbers[site.line] = (path, text, str(seen[text]))
            lines.setdefault(numbers[site.line], []).append(site)
    chosen = sorted(lines, key=lambda line: chance(seed, *line))[:count]
    return [one(lines[line], chance(seed, *line, "kind")) for line in chosen]


def one(sites: list[Site], number: int) -> Site:
    """Return one of the mutants of a line: each kind of change is as likely."""
    kinds = sorted({site.operator for site in sites})
    kind = kinds[number % len(kinds)]
    places = [site for site in sites if site.operator == kind]
    return places[number // len(kinds) % len(places)]


def chance(*words: object) -> int:
    """Return a large number that words determine."""
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "big")


def key(site: Site) -> str:
    """Return what a mutant is known by, whatever line it has moved to."""
    source = (ROOT / site.path).read_text()
    around = source[source.rfind("\n", 0, site.start) + 1 : source.find("\n", site.end)]
    return repr((site.path, site.function, site.operator, around, source[site.start : site.end], site.text))


def results(file: Path) -> dict[str, dict[str, Any]]:
    """Return the lines written so far by what their mutants are known by; the last one counts."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {line["key"]: line for line in map(json.loads, lines)}


def copied(root: Path) -> Tree:
    """Copy the project and its compiled core, as the working tree has them."""
    listing = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    compiled = [str(path.relative_to(ROOT)) for room in ROOMS for path in (ROOT / room).rglob("*.so")]
    for name in [*listing.stdout.decode().split("\0"), *compiled]:
        if name and os.path.lexists(ROOT / name):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
    return Tree(root)


class Tree:
    """A copy of the project, in which mutants live."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.core = kernels.Core(root)
        self.writes = 0

    def judged(self, site: Site, known: Record, budget: float) -> dict[str, Any]:
        """Run the tests that can notice a mutant; return its line."""
        began = cpu_seconds()
        source = (self.root / site.path).read_text()
        status, by, left_out, ran = "survived", "", 0, 0
        try:
            self.write(site.path, site.applied(source))
            if site.path.startswith("c_src/") and not self.core.rebuild(site.path):
                status = "does not compile"
            for stage, tests in zip(("own", "room", "elsewhere"), known.stages(site), strict=True):
                kept = cheapest(tests, known.seconds, budget)
                left_out += len(tests) - len(kept)
                changed = known.changed(site) if stage == "room" else set()
                if status == "survived" and (kept or changed):
                    ran += len(kept)
                    status, by = self.tested(kept, changed, known, stage)
                    if by in kept - known.callers(site):  # one that fails now and then may be the reason
                        status, by = self.tested({by}, set(), known, stage)
        finally:
            self.write(site.path, source)
        if site.path.startswith("c_src/"):
            self.core.rebuild(site.path)
        return {
            "key": key(site),
            "file": site.path,
            "line": site.line,
            "function": site.function,
            "operator": site.operator,
            "before": source[site.start : site.end],
            "after": site.text,
            "status": status,
            "by": by,
            "tests": ran,
            "left_out": left_out,
            "seconds": round(cpu_seconds() - began, 1),
        }

    def write(self, path: str, text: str) -> None:
        """Write a file with a new time of change: bytecode of the last mutant must not pass for that of this one."""
        self.writes += 1
        (self.root / path).write_text(text)
        os.utime(self.root / path, (2**30 + self.writes, 2**30 + self.writes))

    def tested(self, tests: set[str], changed: set[str], known: Record, stage: str) -> tuple[str, str]:
        """Return "killed by" and the stage, "timeout" or "survived", and the test that noticed."""
        chosen = self.root / "build" / "chosen.json"
        chosen.parent.mkdir(exist_ok=True)
        chosen.write_text(json.dumps({"known": known.seconds, "chosen": sorted(tests)}))
        names = sorted({test.partition("::")[0] for test in tests} | changed)
        limit = MORE_S + TIMES * sum(known.seconds[test] for test in tests)
        environment = {"SHARDMARK_CHOSEN": str(chosen)}
        status, output = self.pytest(["-x", *names], environment, limit)
        if status in (0, 5):  # 5: no tests
            return "survived", ""
        if status is None:
            return "timeout", ""
        named = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", output, re.MULTILINE)
        return f"killed by {stage}", named[1] if named else output[-300:]

    def pytest(self, arguments: list[str], environment: dict[str, str], limit: float) -> tuple[int | None, str]:
        """Run pytest in the copy with all cases of the gate; return its exit status, None if it took too long."""
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        inherited |= {"PYTHONPATH": str(self.root), "SHARDMARK_GATE": "1", "OMP_NUM_THREADS": "1"}

        def limited() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                [*command, "-p", "tests.mutants.plugin", *arguments],
                cwd=self.root,
                env=inherited | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=limited,
            )
            end = time.monotonic() + 60 + 3 * limit
            while process.poll() is None and time.monotonic() < end and resident(process.pid) < MEMORY:
                time.sleep(0.3)
            with_children_ended(process)
            log.seek(0)
            output = log.read()
        return (None if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else process.returncode), output


def resident(pid: int) -> int:
    """Resident bytes of a process and its descendants; the sanitizers of C programs permit no limit of addresses."""
    total = 0
    with contextlib.suppress(psutil.Error):
        whole = psutil.Process(pid)
        for each in (whole, *whole.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += each.memory_info().rss
    return total


def with_children_ended(process: subprocess.Popen[bytes]) -> None:
    """End what a test run has left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def record(tree: Tree, file: Path) -> None:
    """Record which functions each test of the gate calls."""
    print("recording which functions each test calls: about ten minutes", flush=True)
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    homes = [f"tests/{room}" for room in (*ROOMS, "c_src", "fuzz")]
    left_out = [f"--ignore=tests/{path}" for path in LEFT_OUT]
    tree.pytest([*homes, *left_out], {"SHARDMARK_RECORD": str(new)}, limit=7200)
    new.rename(file)


def cpu_seconds() -> float:
    """CPU time of all programs that have ended."""
    return sum(os.times()[2:4])


def shown(line: dict[str, Any]) -> str:
    """Return a mutant's line for people."""
    before, after = (re.sub(r"\s+", " ", line[side])[:70] for side in ("before", "after"))
    place, end = f"{line['file']}:{line['line']}", line["by"].rpartition("::")[2].strip()
    return f"{line['status']} ({line['seconds']:.0f} s) {place} {line['operator']}: {before} -> {after} {end}"


def summary(lines: list[dict[str, Any]]) -> str:
    """Return how many mutants ended how, then each that survived."""
    texts = []
    for kind, suffixes in (("Python", (".py",)), ("C", (".c", ".h"))):
        among = [line for line in lines if line["file"].endswith(suffixes)]
        ends = Counter(line["status"] for line in among).most_common()
        texts.append(f"{kind}: {len(among)} mutants, {sum(line['seconds'] for line in among):.0f} CPU seconds")
        texts += [f"  {status}: {count}" for status, count in ends]
    return "\n".join([*texts, *(shown(line) for line in lines if line["status"] == "survived")])


if __name__ == "__main__":
    main()
