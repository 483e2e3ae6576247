"""The files of a plan: ``plan.json``, a page to look at, the instance and its solution, and files that run.

``plan.json`` has these keys. Times are in microseconds, sizes in bytes:

``format``       "shardmark/plan/1"
``model``        ``file``, ``sha256`` of its content, ``operators``, ``multiply_adds``, ``parameter_bytes``
``devices``      in words; ``costs`` names the source of the operators' times
``track``, ``instance``, ``solution``  what was solved, as in ``instance.json``, and the answer,
                 as in ``solution.json``
``cost_us``, ``lower_bound_us``, ``bound_from``, ``gap``  verified cost, proven bound, its method, cost / bound - 1
``grade``  of the bound: "checked" by its certificate, "agreed" or "claimed"
``parts``        stages or devices: ``name``, ``operators`` (their number), ``compute_us``, ``load_us``,
                 ``parameter_bytes``, ``received_bytes``, ``sent_bytes``, ``modules``, ``cut_modules``
``assignment``   operator name to its index in ``parts``
``specs``        on a mesh: its partition specs (`shardmark.plans.partition_specs`), else null
``options``      those that the plan was made with
``whole``        only if modules are kept whole: ``modules``, and ``cost_us`` and ``lower_bound_us`` without this
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shardmark.instances import InputError
from shardmark.instances import save as save_instance
from shardmark.instances.files.jsonfile import read_bytes, read_json, require_keys, write_bytes, write_json
from shardmark.plans.certified_split import CertifiedSplit
from shardmark.plans.whole import Price

FORMAT, LAYOUT_FORMAT = "shardmark/plan/1", "shardmark/layout/1"
PLAN, PAGE, INSTANCE, SOLUTION = "plan.json", "plan.html", "instance.json", "solution.json"
STAGES, SPECS, ANNOTATED, TORCH = "stages", "specs.json", "annotated.onnx", "layout.torch.json"
EARLIER = (PAGE, INSTANCE, SOLUTION, STAGES, SPECS, ANNOTATED, "annotated.data", TORCH)  # files removed with a plan
KEYS = (
    *("format", "model", "devices", "costs", "track", "instance", "solution", "cost_us"),
    *("lower_bound_us", "bound_from", "gap", "parts", "assignment", "specs", "options"),
)


def document(plan: CertifiedSplit) -> dict[str, Any]:
    """The content of ``plan.json``."""
    model = plan.model
    return {
        "format": FORMAT,
        "model": {
            "file": str(plan.source.absolute()),
            "sha256": plan.sha256,
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
        "lower_bound_us": plan.lower_bound,
        "bound_from": plan.bound_from,
        "grade": plan.grade,
        "gap": plan.gap,
        "parts": [
            {**asdict(part), "operators": operators} for part, operators in zip(plan.parts, plan.operators, strict=True)
        ],
        "assignment": plan.assignment,
        "specs": plan.layout.specs,
        "options": dict(plan.options),
        **({} if plan.price is None else {"whole": _of_price(plan.price)}),
    }


def _of_price(price: Price) -> dict[str, Any]:
    return {"modules": list(price.modules), "cost_us": price.cost, "lower_bound_us": price.lower_bound}


def require_folder(folder: Path) -> None:
    """InputError if a plan cannot be written to a folder, or if that holds anything but an earlier plan.

    The folder need not exist, and is not made.
    """
    with staged(folder):
        pass


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, whose files replace those of an earlier plan in ``folder``, ``plan.json`` last.

    After an error or an interrupt in the block nothing has changed. InputError as `require_folder` says.
    """
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir()}
        if names and PLAN not in names:
            raise InputError(folder, "", "expected a folder that is empty or holds an earlier plan")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".plan.") as temporary:
            yield Path(temporary)
            made = sorted(os.listdir(temporary), key=lambda name: name == PLAN)
            for name in names.intersection(EARLIER) if made else ():
                os.rename(folder / name, Path(temporary, f".{name}"))
            for name in made:
                os.replace(Path(temporary, name), folder / name)
    except OSError as error:
        raise InputError(folder, "", f"expected a folder that can be written ({error.strerror})") from None
    finally:
        for path in missing:
            with suppress(OSError):  # unless it holds the plan
                path.rmdir()


def save(plan: CertifiedSplit, folder: Path, export: str | None = None) -> Path:
    """Write the files of a plan, all of them or none, and those of an export; return the path of ``plan.json``."""
    require_export(export, plan.source, on_mesh=plan.layout.specs is not None)
    with staged(folder) as temporary:
        _write(plan, temporary)
        _export(plan, export, temporary)
    return folder / PLAN


def require_export(export: str | None, model: str | os.PathLike[str], *, on_mesh: bool) -> None:
    """InputError for files that plans of this model on these devices do not have; None is no export."""
    from shardmark.instances.models.reader import begins_as_onnx, read_model

    if export is None:
        return
    exports = ("specs", "annotated") if on_mesh else ("stages", "annotated")
    if export not in exports:
        expected = f"expected {' or '.join(exports)} for a plan {'on' if on_mesh else 'without'} a mesh"
        raise InputError("plan", "export", f"{expected}, found {export!r}")
    if export != "specs" and not begins_as_onnx(model):
        read_bytes(model)  # says so if there is no such file
        raise InputError(
            model, "", f"expected an ONNX model to export {export}; a StableHLO program has only specs, with a mesh"
        )
    if export == "specs" and not begins_as_onnx(model) and read_model(model).unrolled:
        expected = "expected a program without loops and branches to export specs, as JAX shards all rounds alike"
        raise InputError(model, "", f"{expected}: lower it with jax.lax.scan(..., unroll=True)")


def _export(plan: CertifiedSplit, export: str | None, folder: Path) -> None:
    """Write the files that run."""
    if export == "stages":
        from shardmark.plans.exports.stages import export_stages

        given = {key: plan.options[key] for key in ("dims", "branches")}
        export_stages(plan.source, plan.assignment, folder / STAGES, digest=plan.sha256, **given)
    elif export == "specs":
        write_json(folder / SPECS, plan.layout.specs)
    elif export == "annotated":
        from shardmark.plans.exports.annotated import export_annotated

        specs = plan.layout.specs
        export_annotated(plan.source, plan.assignment, folder / ANNOTATED, specs=specs, digest=plan.sha256)


def _write(plan: CertifiedSplit, folder: Path) -> None:
    """Write the files of a plan to an empty folder that is there."""
    from shardmark.plans.page import page

    save_instance(plan.instance, folder / INSTANCE)
    write_json(folder / SOLUTION, plan.solution)
    write_bytes(folder / PAGE, page(plan).encode())
    text = json.dumps(document(plan), indent=1, allow_nan=False)
    write_bytes(folder / PLAN, f"{text}\n".encode())


def load(folder: Path) -> dict[str, Any]:
    """Read the ``plan.json`` of a folder; InputError if it is none."""
    path = folder / PLAN
    if not path.exists():
        raise InputError(folder, "", f"expected the folder of a plan, with a file {PLAN}")
    content = read_json(path)
    if isinstance(content, dict) and content.get("format") == LAYOUT_FORMAT:
        expected = "expected a plan of --devices, --mesh or --machine, found a layout, which `plan verify` takes alone"
        raise InputError(path, "", expected)
    found = dict(require_keys(content, str(path), "", KEYS, ("grade", "whole")))
    if found["format"] != FORMAT:
        raise InputError(path, "format", f"expected {FORMAT!r}, found {found['format']!r}")
    for key, sound in _SOUND.items():
        if not sound(found):
            raise InputError(path, key, "expected a file written by `shardmark plan`, found an edited value")
    return found


def _entries(value: Any, kind: type | tuple[type, ...]) -> bool:
    """True for an object whose values are of a kind, and no booleans."""
    return isinstance(value, dict) and all(isinstance(x, kind) and not isinstance(x, bool) for x in value.values())


#: Checks of the keys of ``plan.json`` that are read again: True for a value as it was written.
_SOUND: dict[str, Callable[[dict[str, Any]], bool]] = {
    "model": lambda plan: (
        _entries(plan["model"], (str, int)) and all(type(plan["model"].get(x)) is str for x in ("file", "sha256"))
    ),
    "costs": lambda plan: isinstance(plan["costs"], str),
    "options": lambda plan: (
        isinstance(plan["options"], dict)
        and _entries(plan["options"].get("dims"), int)
        and _entries(plan["options"].get("branches", {}), str)
    ),
    "parts": lambda plan: (
        isinstance(plan["parts"], list)
        and all(isinstance(x, dict) and type(x.get("compute_us")) in (int, float) for x in plan["parts"])
    ),
    "assignment": lambda plan: (
        _entries(plan["assignment"], int) and all(0 <= x < len(plan["parts"]) for x in plan["assignment"].values())
    ),
}
