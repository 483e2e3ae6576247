"""A training step of 24 layers becomes problems of a useful size, in seconds and little memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SIZES = ["layers=24", "batch=32", "sequence=1024", "width=1024", "heads=16", "vocabulary=32768"]
PROGRAM = """
import resource
import sys
import time

from instances.models.as_intraop import as_intraop
from instances.models.devices import device
from instances.models.stablehlo_file import read_stablehlo

begin = time.process_time()
model = read_stablehlo(sys.argv[1], print)
sharding = as_intraop(model, device("h100"), "4x8")
print(len(model.operators), sharding.instance.nodes, time.process_time() - begin)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.gate
def test_a_mesh_problem_of_24_layers_in_a_minute_and_2_gib(tmp_path):
    path, environment = tmp_path / "step.mlir", {**os.environ, "PYTHONPATH": str(ROOT)}
    script = [sys.executable, str(ROOT / "examples" / "training_steps.py"), "transformer", *SIZES]
    subprocess.run([*script, "--output", str(path)], env=environment, check=True)
    assert path.read_text().count(" = stablehlo.") > 5000
    command = [sys.executable, "-c", PROGRAM, str(path)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (operators, nodes, seconds), (kibibytes,) = (line.split() for line in ran.stdout.splitlines())
    assert int(operators) > 5000
    assert int(nodes) > 1000
    assert float(seconds) < 60
    assert int(kibibytes) < 2 << 20
