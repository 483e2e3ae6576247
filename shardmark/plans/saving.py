"""The files of a plan: ``plan.json``, a page to look at, and the instance.

``plan.json`` has these keys. Times are in microseconds, sizes in bytes:

``format``       "shardmark/plan/1"
``model``        ``file``, ``sha256`` of its content, ``operators``, ``multiply_adds``, ``parameter_bytes``
``devices``      in words; ``costs`` says where the operators' times come from
``track``, ``instance``, ``solution``  what was solved: the file ``instance.json`` beside it, and the answer
``cost_us``, ``lower_bound_us``, ``bound_from``, ``gap``  verified cost, proven bound, its method, cost / bound - 1
``parts``        stages or devices: ``name``, ``operators`` (how many), ``compute_us``, ``load_us``,
                 ``parameter_bytes``, ``received_bytes``, ``sent_bytes``
``assignment``   for every operator of the file, by name, its place in ``parts``
``specs``        on a mesh: its partition specs (`shardmark.plans.partition_specs`), else null
``options``      with which the plan was made
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances import InputError
from instances import save as save_instance
from instances.files.jsonfile import read_json, require_keys, write_bytes

if TYPE_CHECKING:
    from shardmark.plans.plan import Plan

FORMAT = "shardmark/plan/1"
PLAN, PAGE, INSTANCE = "plan.json", "plan.html", "instance.json"
KEYS = (
    *("format", "model", "devices", "costs", "track", "instance", "solution", "cost_us"),
    *("lower_bound_us", "bound_from", "gap", "parts", "assignment", "specs", "options"),
)


def document(plan: Plan) -> dict[str, Any]:
    """The content of ``plan.json``."""
    model = plan.model
    return {
        "format": FORMAT,
        "model": {
            "file": str(plan.source.absolute()),
            "sha256": plan.digest,
            "operators": len(plan.assignment),
            "multiply_adds": sum(operator.multiply_adds for operator in model.operators),
            "parameter_bytes": model.parameter_bytes(),
        },
        "devices": plan.target.devices,
        "costs": plan.costs.origin,
        "track": plan.target.track,
        "instance": INSTANCE,
        "solution": plan.solution,
        "cost_us": plan.cost,
        "lower_bound_us": plan.bound,
        "bound_from": plan.bound_from,
        "gap": plan.gap,
        "parts": [{**asdict(part), "operators": len(part.operators)} for part in plan.stages],
        "assignment": plan.assignment,
        "specs": plan.division.specs,
        "options": dict(plan.options),
    }


def require_folder(folder: Path) -> None:
    """Make the folder of a plan; InputError if it holds anything but an earlier plan, or cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise InputError(folder, "", f"expected a folder that can be written ({error.strerror})") from None
    if names and PLAN not in names:
        raise InputError(folder, "", "expected a folder that is empty or holds an earlier plan")
    if not os.access(folder, os.W_OK):
        raise InputError(folder, "", "expected a folder that can be written")


def save(plan: Plan, folder: Path) -> Path:
    """Write the files of a plan, ``plan.json`` last; return its path."""
    from shardmark.plans.page import page

    require_folder(folder)
    save_instance(plan.instance, folder / INSTANCE)
    write_bytes(folder / PAGE, page(plan).encode())
    text = json.dumps(document(plan), indent=1, allow_nan=False)
    write_bytes(folder / PLAN, f"{text}\n".encode())
    return folder / PLAN


def load(folder: Path) -> dict[str, Any]:
    """Read the ``plan.json`` of a folder; InputError if it is none."""
    path = folder / PLAN
    if not path.exists():
        raise InputError(folder, "", f"expected the folder of a plan, with a file {PLAN}")
    found = dict(require_keys(read_json(path), str(path), "", KEYS))
    if found["format"] != FORMAT:
        raise InputError(path, "format", f"expected {FORMAT!r}, found {found['format']!r}")
    return found
