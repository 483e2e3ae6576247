"""Plans exported models over four devices, runs their stages, and prints a table in Markdown.

    python plan.py FOLDER [MODEL ...]

Runs in the environment of Shardmark with the extra ``run``; `export.py` in this folder writes the files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import shardmark as sm

DEVICES = 4
COLUMNS = ("model", "operators", "gap", "speed-up", "seconds", "of CPU time", "outputs", "stages but the last end with")


def outputs_of(plan: sm.Plan) -> str:
    """Whether the stages of a plan compute what the whole model does, as `shardmark plan verify` says."""
    with tempfile.TemporaryDirectory() as folder:
        plan.save(folder, export="stages")
        command = [sys.executable, "-m", "shardmark", "plan", "verify", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {0: "same", 1: "DIFFERENT"}.get(done.returncode, done.stderr.strip().splitlines()[-1])


def cpu_seconds() -> float:
    """CPU time of this program and of the runs that it has started, in seconds."""
    return sum(os.times()[:4])


def row(path: Path, timeout: float) -> list[str]:
    """The line of one model; the reason if there is no plan."""
    start, cpu = time.monotonic(), cpu_seconds()
    try:
        plan = sm.plan(path, devices=DEVICES, timeout=timeout)
    except sm.InputError as error:
        return [path.stem, *[""] * (len(COLUMNS) - 2), str(error)]
    seconds = [f"{time.monotonic() - start:.0f}", f"{cpu_seconds() - cpu:.0f}"]
    ends = ", ".join(f"`{part.modules[-1]}`" for part in plan.parts[:-1] if part.modules)
    gap = "none" if plan.gap is None else f"{100 * plan.gap:.2g} %"
    return [path.stem, str(len(plan.assignment)), gap, f"{plan.speedup:.2f}", *seconds, outputs_of(plan), ends]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--timeout", type=float, default=30, metavar="S", help="seconds per model (default: 30)")
    options = parser.parse_args()
    names = options.models or sorted(path.stem for path in options.folder.glob("*.onnx"))
    print(f"| {' | '.join(COLUMNS)} |\n| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |", flush=True)
    for name in names:
        print(f"| {' | '.join(row(options.folder / f'{name}.onnx', options.timeout))} |", flush=True)


if __name__ == "__main__":
    main()
