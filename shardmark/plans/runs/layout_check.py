"""Checks the folder of a layout on a cluster: lays the run out again from the model, and compares all files.

Nothing in the folder is trusted but what was asked (``request`` in ``plan.json``) and the solution, which the verifier
judges on costs that are computed again. The lower bound is proven again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shardmark.instances import InputError
from shardmark.instances.files.columns import describe
from shardmark.instances.files.jsonfile import plain_json, read_bytes, read_json, require_keys, require_regular, sha256
from shardmark.instances.hybrid import to_document
from shardmark.instances.models.devices import Device, device_of_entry
from shardmark.plans.cluster.certified_layout import CertifiedLayout
from shardmark.plans.cluster.layout import STEPS
from shardmark.plans.cluster.request import plan_run
from shardmark.plans.cluster.saving import document
from shardmark.plans.exports.jax_layout import jax_layout
from shardmark.plans.exports.torch_layout import torch_layout
from shardmark.plans.saving import INSTANCE, LAYOUT_FORMAT, PLAN, SOLUTION, SPECS, TORCH

#: Relative difference of two sums of the same numbers.
ROUNDING = 1e-9
#: Seconds for the bound, at most; else as many as the layout had.
MOST_S = 86_400.0
#: Keys of ``request`` in ``plan.json``.
ASKED = (
    *("sha256", "cluster", "batch", "microbatch", "train", "objective", "shard", "max_tensor"),
    *("device", "dims", "branches", "timeout"),
)
#: Exported files, and how each follows from a layout.
EXPORTED: dict[str, Callable[[CertifiedLayout], dict[str, Any]]] = {TORCH: torch_layout, SPECS: jax_layout}


def _number(value: Any) -> bool:
    return type(value) is int or value is None


def _values(value: Any, kind: type) -> bool:
    return isinstance(value, dict) and all(type(one) is kind for one in value.values())


#: What some keys of ``request`` have, and a check; `plan_run` judges the others, and the values.
_SOUND: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "cluster": ("a list of two numbers", lambda value: isinstance(value, list)),
    **dict.fromkeys(("batch", "microbatch", "max_tensor"), ("a whole number", _number)),
    "device": ("an object", lambda value: isinstance(value, dict)),
    "dims": ("numbers by names of sizes", lambda value: _values(value, int)),
    "timeout": ("a positive number of seconds", lambda value: type(value) in (int, float) and value > 0),
    "branches": ("choices by names of branches", lambda value: _values(value, str)),
}


@dataclass(frozen=True)
class Difference:
    """A place in a file, what it says, and what is found again; numbers, or words for anything else."""

    what: str
    planned: float | str
    verified: float | str


@dataclass(frozen=True)
class LayoutCheck:
    """What a folder's layout is again.

    ``layout``       the folder's solution on costs computed again, with the bound proven again
    ``violations``   sentences on stages that lack memory
    ``differences``  of the folder's files from those of this layout
    """

    layout: CertifiedLayout
    violations: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        """True if the layout fits its devices, and all files say what is found again."""
        return not self.violations and not self.differences


def is_layout(folder: Path) -> bool:
    """True for the folder of a layout on a cluster."""
    path = folder / PLAN
    require_regular(path)
    found = read_json(path) if path.exists() else None
    return isinstance(found, dict) and found.get("format") == LAYOUT_FORMAT


def check_layout(folder: Path, tell: Callable[[str], None] = lambda _: None) -> LayoutCheck:
    """Lay the run of a folder out again with the folder's solution, and compare; ``tell`` is called per step.

    If the model has moved, it may be in that folder.

    Raises InputError if a file is missing or malformed, if the solution breaks a rule, or if the model is another one.
    """
    require_regular(*(folder / name for name in (PLAN, INSTANCE, SOLUTION, *EXPORTED)))
    path = folder / PLAN
    plan, instance, solution = (read_json(folder / name) for name in (PLAN, INSTANCE, SOLUTION))
    for name, content in ((PLAN, plan), (SOLUTION, solution)):
        if not isinstance(content, dict):
            raise InputError(folder / name, "", f"expected an object, found {describe(content)}")
    model = _model(path, plan)
    asked = _asked(path, plan["request"])
    try:
        found = plan_run(model, **asked, cores=1, seed=0, progress=tell, given=solution)
    except InputError as error:
        place = error.place if error.source == "plan" else error.source
        if place not in (*asked, "solution"):
            raise
        where = (folder / SOLUTION, "") if place == "solution" else (path, f"request.{place}")
        raise InputError(*where, error.expected) from None
    again = document(_with_bound(found, plan)) | {"model": plan["model"]}
    files = {PLAN: (plan, again), INSTANCE: (instance, to_document(found.instance))}
    for name, content in EXPORTED.items():
        if (folder / name).exists():
            files[name] = read_json(folder / name), content(found)
    different = (
        one for name, (stated, made) in files.items() for one in _differences(stated, plain_json(made, name), name)
    )
    return LayoutCheck(found, tuple(_too_full(found)), tuple(different))


def _model(path: Path, plan: dict[str, Any]) -> Path:
    """The path of the model's file; InputError if that is not the file that was laid out."""
    request = plan.get("request")
    if not isinstance(request, dict) or not isinstance(plan.get("model"), str):
        expected = "expected the path of the model and a request, as `shardmark plan --cluster` writes"
        raise InputError(path, "", f"{expected}; lay it out again")
    model = Path(plan["model"])
    if not model.exists() and path.with_name(model.name).exists():
        model = path.with_name(model.name)
    require_regular(model)
    if sha256(read_bytes(model)) != request.get("sha256"):
        raise InputError(model, "", f"expected the model that {path} was made of, found another SHA-256")
    return model


def _asked(path: Path, request: Any) -> dict[str, Any]:
    """The arguments of `plan_run`; it judges the values that a user can give as well."""
    asked = dict(require_keys(request, str(path), "request", ASKED))
    del asked["sha256"]
    for key, (expected, sound) in _SOUND.items():
        if not sound(asked[key]):
            raise InputError(path, f"request.{key}", f"expected {expected}, found {describe(asked[key])}")
    asked["timeout"] = min(asked["timeout"], MOST_S)
    asked["device"] = _device(path, asked["device"])
    return asked


def _device(path: Path, entry: dict[str, Any]) -> Device:
    figures = {key: value for key, value in entry.items() if value is not None and key != "name"}
    if not isinstance(entry.get("name"), str):
        raise InputError(path, "request.device.name", f"expected a name, found {describe(entry.get('name'))}")
    return device_of_entry(entry["name"], figures, str(path), "request.device")


def _with_bound(found: CertifiedLayout, plan: dict[str, Any]) -> CertifiedLayout:
    """The layout with the bound of ``plan``, and its method, unless that bound is above the one proven again."""
    stated, method = plan.get("lower_bound_s"), plan.get("bound_from")
    methods = (found.bound_from, "simple", *(step.method for step in STEPS))
    if isinstance(stated, int | float) and method in methods and 0 <= stated <= found.bound_s * (1 + ROUNDING):
        return replace(found, bound_s=float(stated), bound_from=method)
    return found


def _too_full(found: CertifiedLayout) -> Iterator[str]:
    """Sentences on stages that lack memory for a block while it runs, of which the track knows nothing."""
    limit = found.instance.memory
    for number, stage in enumerate(found.stages):
        if stage.memory > found.instance.capacity:
            yield f"stage {number}: expected at most {limit:,.0f} bytes per device, found {stage.memory:,.0f}"


def _differences(stated: Any, again: Any, place: str) -> Iterator[Difference]:
    """The places where two JSON values differ, apart from rounding."""
    if isinstance(stated, dict) and isinstance(again, dict):
        for key in {**again, **stated}:
            at = f"{place}: {key}" if place in (PLAN, INSTANCE, *EXPORTED) else f"{place}.{key}"
            if key in stated and key in again:
                yield from _differences(stated[key], again[key], at)
            else:
                yield Difference(at, *("nothing" if key not in side else _shown(side[key]) for side in (stated, again)))
    elif isinstance(stated, list) and isinstance(again, list) and len(stated) == len(again):
        for number, pair in enumerate(zip(stated, again, strict=True)):
            yield from _differences(*pair, f"{place}[{number}]")
    elif not _same(stated, again):
        yield Difference(place, _shown(stated), _shown(again))


def _same(stated: Any, again: Any) -> bool:
    if type(stated) in (int, float) and type(again) in (int, float):
        try:
            return math.isclose(stated, again, rel_tol=ROUNDING, abs_tol=1e-15)
        except OverflowError:  # of an integer beyond floats
            return False
    return type(stated) is type(again) and bool(stated == again)


def _shown(value: Any) -> float | str:
    """A number that JSON has, or a description."""
    if type(value) in (int, float) and abs(value) < 1e300:
        return float(value)
    return describe(value)
