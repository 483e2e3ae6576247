"""The files of a layout: ``plan.json``, the instance of track ``hybrid`` and its solution, and files that run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shardmark.instances import InputError
from shardmark.instances import save as save_instance
from shardmark.instances.files.jsonfile import write_bytes, write_json
from shardmark.plans.cluster.certified_layout import CertifiedLayout
from shardmark.plans.cluster.practice import Practice
from shardmark.plans.cluster.views.page import page
from shardmark.plans.exports.jax_layout import jax_layout
from shardmark.plans.exports.torch_layout import torch_layout
from shardmark.plans.saving import INSTANCE, LAYOUT_FORMAT, PAGE, PLAN, SOLUTION, SPECS, TORCH, staged

EXPORTS = ("torch", "specs")


def require_export(export: str | None) -> None:
    """InputError for files that layouts do not have; None is no export."""
    if export not in (None, *EXPORTS):
        expected = f"expected {' or '.join(EXPORTS)} for a layout on a cluster"
        raise InputError("plan", "export", f"{expected}, found {export!r}")


def document(layout: CertifiedLayout) -> dict[str, Any]:
    """The content of ``plan.json``; times in seconds, sizes in bytes."""
    return {
        "format": LAYOUT_FORMAT,
        "model": str(layout.source.absolute()),
        "request": dict(layout.request),
        "track": "hybrid",
        "objective": layout.run.objective,
        "cost_s": layout.cost_s,
        "lower_bound_s": layout.bound_s,
        "bound_from": layout.bound_from,
        "gap": layout.gap,
        "gap_text": layout.gap_text,
        "backward_pass": {"forward_passes": layout.backward, "rule": layout.rule},
        "unproven_shardings": [asdict(one) for one in layout.unproven],
        "samples_per_s": layout.samples_per_s,
        "utilisation": layout.utilisation,
        "stages": [asdict(stage) | {"memory": stage.memory} for stage in layout.stages],
        "practices": [_of_practice(practice) for practice in layout.practices],
        "solution": layout.solution,
    }


def save(layout: CertifiedLayout, folder: Path, export: str | None = None) -> Path:
    """Write the files of a layout, all of them or none, and those of an export; return the path of ``plan.json``."""
    require_export(export)
    with staged(folder) as temporary:
        save_instance(layout.instance, temporary / INSTANCE)
        write_json(temporary / SOLUTION, layout.solution)
        write_bytes(temporary / PAGE, page(layout).encode())
        if export == "specs":
            write_json(temporary / SPECS, jax_layout(layout))
        if export == "torch":
            _write_lines(temporary / TORCH, torch_layout(layout))
        _write_lines(temporary / PLAN, document(layout))
    return folder / PLAN


def _of_practice(practice: Practice) -> dict[str, Any]:
    keys = ("name", "layout", "cost_s", "lacking_bytes")
    return dict(zip(keys, (practice.name, practice.layout, practice.cost, practice.lacking), strict=True))


def _write_lines(path: Path, content: dict[str, Any]) -> None:
    """Write JSON for people as well."""
    write_bytes(path, f"{json.dumps(content, indent=1, allow_nan=False)}\n".encode())
