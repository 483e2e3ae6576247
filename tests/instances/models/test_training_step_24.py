"""A training step of 24 layers becomes a mesh problem of a useful size in little memory."""

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
from collections import Counter

from shardmark.instances.models.as_intraop import as_intraop
from shardmark.instances.models.devices import device
from shardmark.instances.models.stablehlo.apart import read_stablehlo

model = read_stablehlo(sys.argv[1], print)
sharding = as_intraop(model, device("h100"), "4x8")
alike = Counter(operator.role for operator in model.operators if operator.layer >= 0)
print(len(model.operators), sharding.instance.nodes, *set(alike.values()))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.thorough
def test_a_mesh_problem_of_24_layers_in_2_gib(tmp_path):
    path, environment = tmp_path / "step.mlir", {**os.environ, "PYTHONPATH": str(ROOT)}
    script = [sys.executable, str(ROOT / "examples" / "training_steps.py"), "transformer", *SIZES]
    subprocess.run([*script, "--output", str(path)], env=environment, check=True)
    assert path.read_text().count(" = stablehlo.") > 5000
    command = [sys.executable, "-c", PROGRAM, str(path)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (operators, nodes, *counts), (kibibytes,) = (line.split() for line in ran.stdout.splitlines())
    assert int(operators) > 5000
    assert int(nodes) > 1000
    assert counts == ["24"], "layers are alike"
    assert int(kibibytes) < 2 << 20
