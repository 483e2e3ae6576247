"""The program that plans exported models prints a line per model, and a reason for what is no model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from onnx_models import LIGHT

PROGRAM = Path(__file__).parents[2] / "examples" / "hugging_face" / "plan.py"


def test_a_table_of_plans(tmp_path):
    squeezenet = next(path for path in LIGHT if "squeezenet" in path.name)
    (tmp_path / "squeezenet.onnx").write_bytes(squeezenet.read_bytes())
    (tmp_path / "broken.onnx").write_text("no model")
    command = [sys.executable, PROGRAM, tmp_path, "--timeout", "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    broken, plan = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    assert broken[0] == "broken"
    assert "expected an ONNX model" in broken[-1]
    assert plan[:2] == ["squeezenet", "66"]
    assert float(plan[2].removesuffix(" %")) <= 2
    assert 1 < float(plan[3]) <= 4
    assert plan[6] == "same"
