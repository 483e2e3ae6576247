"""Runs the stages of a plan one after another, and compares them with the whole model and with the plan.

Every stage runs alone, with one thread, as `shardmark.plans.runs.running` describes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import read_json, require_keys, require_regular
from shardmark.instances.models.model import Tensor
from shardmark.instances.models.onnx_graph.control.nodes import is_control
from shardmark.plans import saving
from shardmark.plans.exports.external_data import locate_weights
from shardmark.plans.exports.onnx_graph import load, load_fixed
from shardmark.plans.exports.stages import FORMAT, KEYS, MANIFEST, STAGE_KEYS, file_sha256
from shardmark.plans.runs.running import Session, random_inputs, stable_median
from shardmark.plans.runs.seeds import seed_random_operators
from shardmark.plans.runs.values import Array, Value, to_array

STAGES = "stages"  # subfolder of the plan's folder
TOLERANCE = 1e-5  # of the largest number of a tensor
SECONDS = 10.0  # most for the repeats of one stage


@dataclass(frozen=True)
class StageRun:
    """A stage as planned and as run.

    ``predicted_us``, ``measured_us``  microseconds per run of the model
    ``difference``  largest difference of an output from the whole model's, relative to the output's largest number
    ``random``      names of its random operators without a seed, which here have the same seed as in the whole model
    """

    stage: int
    predicted_us: float
    measured_us: float
    difference: float
    random: Sequence[str] = ()


@dataclass(frozen=True)
class StageRuns:
    """The stages of a plan, in the order of their runs."""

    stages: Sequence[StageRun]

    @property
    def equal(self) -> bool:
        """True if the outputs of all stages equal the whole model's, within 1e-5 of an output's largest number."""
        return all(run.difference <= TOLERANCE for run in self.stages)

    def rows(self) -> list[dict[str, Any]]:
        """A row per stage: times in microseconds, measured / predicted, largest difference, random operators."""
        return [
            {
                "stage": run.stage,
                "predicted_us": run.predicted_us,
                "measured_us": run.measured_us,
                "ratio": run.measured_us / run.predicted_us if run.predicted_us else None,
                "difference": run.difference,
                "random": list(run.random),
            }
            for run in self.stages
        ]


def verify(folder: str | os.PathLike[str], *, tell: Callable[[str], None] = lambda _: None) -> StageRuns:
    """Run the stages in the folder of a plan on random inputs. If the model has moved, it may be in that folder.

    Raises InputError if a file is missing or was edited, if the model is not the plan's, or without ONNX Runtime.
    """
    folder = Path(folder)
    plan = saving.load(folder)
    about = plan["model"]
    path = Path(about["file"])
    if not path.exists() and (folder / path.name).exists():
        path = folder / path.name
    require_regular(path)
    dims, branches = plan["options"]["dims"], plan["options"].get("branches", {})
    model, planned = load_fixed(path, dims, about["sha256"], branches)
    locate_weights(model, path)
    seed_random_operators(model)
    manifest = _manifest(folder / STAGES, about["sha256"], plan["assignment"], planned)
    tell(f"costs of the plan: {plan['costs']}; times are measured on this machine")
    tell(f"running the whole model {path}")
    names = [port["name"] for stage in manifest["stages"] for port in stage["outputs"]]
    session = _whole(model, names, path)
    tensors = random_inputs(model, planned)
    whole = {name: to_array(value) for name, value in session.run(tensors).items()}
    if not branches:
        whole |= _as_written(path, dims, tensors)
    runs = []
    for stage in manifest["stages"]:
        tell(f"running stage {stage['stage']}")
        predicted = plan["parts"][stage["stage"]]["compute_us"]
        runs.append(_run(stage, folder / STAGES / stage["file"], predicted, tensors, whole))
    return StageRuns(runs)


def _as_written(path: Path, dims: Mapping[str, int], tensors: Mapping[str, Value]) -> Mapping[str, Array]:
    """The outputs of a model with loops and branches, run as they are; nothing for another model."""
    model = load(path, dims=dims)
    if not any(map(is_control, model.graph.node)):
        return {}
    locate_weights(model, path)
    seed_random_operators(model)
    return {name: to_array(value) for name, value in Session(model, path).run(tensors).items()}


def _run(
    stage: Mapping[str, Any], path: Path, predicted: float, tensors: dict[str, Value], whole: Mapping[str, Array]
) -> StageRun:
    """Run a stage on ``tensors``, which get its outputs, and compare these with those of the whole model."""
    model = load(path)
    locate_weights(model, path)
    random = seed_random_operators(model)
    session = Session(model, path)
    outputs = session.run(tensors)
    seconds = stable_median(lambda: session.run(tensors), SECONDS)
    tensors |= outputs
    differences = [_difference(to_array(value), whole[name]) for name, value in outputs.items()]
    return StageRun(stage["stage"], predicted, 1e6 * seconds, max(differences, default=0.0), random)


def _manifest(folder: Path, model: str, assignment: Mapping[str, int], planned: Mapping[str, Tensor]) -> dict[str, Any]:
    """The manifest of the stages of a plan; InputError if they are of another one, or a file was edited.

    ``model`` is the SHA-256 of the model, ``planned`` has its tensors: with other sizes it is another plan.
    """
    path = folder / MANIFEST
    if not path.exists():
        raise InputError(folder, "", "expected the stages of the plan: write them with --export stages")
    found = dict(require_keys(read_json(path), str(path), "", KEYS))
    if found["format"] != FORMAT:
        raise InputError(path, "format", f"expected {FORMAT!r}, found {found['format']!r}")
    if not isinstance(found["stages"], list):
        raise InputError(path, "stages", "expected a file written by --export stages, found an edited value")
    for index, stage in enumerate(found["stages"]):
        if not _sound(require_keys(stage, str(path), f"stages[{index}]", STAGE_KEYS)):
            raise InputError(
                path, f"stages[{index}]", "expected a file written by --export stages, found an edited value"
            )
    stage_of = {name: stage["stage"] for stage in found["stages"] for name in stage["operators"]}
    if found["model"] != model or stage_of != assignment or not all(_as_planned(x, planned) for x in _ports(found)):
        raise InputError(
            path, "", "expected the stages of this plan, found those of another plan: use --export stages again"
        )
    for stage in found["stages"]:
        for name, digest in stage["sha256"].items():
            if file_sha256(folder / name) != digest:
                raise InputError(folder / name, "", "expected the exported file, found an edited one")
    return found


def _ports(manifest: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The tensors that the stages read and return."""
    for stage in manifest["stages"]:
        yield from (*stage["inputs"], *stage["outputs"])


def _as_planned(port: Mapping[str, Any], planned: Mapping[str, Tensor]) -> bool:
    tensor = planned.get(port["name"])
    return tensor is not None and (port.get("shape"), port.get("dtype")) == (list(tensor.shape), tensor.dtype)


def _sound(stage: Mapping[str, Any]) -> bool:
    """True if the values of a stage that are used are of their kinds, and its model is among its files."""
    hashes, operators = stage["sha256"], stage["operators"]
    return (
        type(stage["stage"]) is int
        and isinstance(hashes, dict)
        and isinstance(stage["file"], str)
        and stage["file"] in hashes
        and isinstance(operators, list)
        and all(isinstance(name, str) for name in operators)
        and all(isinstance(stage[key], list) for key in ("inputs", "outputs"))
        and all(isinstance(port, dict) and isinstance(port.get("name"), str) for port in _ports({"stages": [stage]}))
    )


def _whole(model: Any, names: Sequence[str], path: Path) -> Session:
    """The whole model, which also returns the tensors that cross between stages."""
    returned = {info.name for info in model.graph.output}
    for name in names:
        if name not in returned:
            model.graph.output.add(name=name)
    return Session(model, path)


def _difference(found: Array, expected: Array) -> float:
    """Largest difference of two arrays, over the largest number expected; infinite if shapes or NaNs differ."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return math.inf
    a, b = found.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.abs(a - b)[~same].max() / scale
    return math.inf if np.isnan(difference) else float(difference)
