"""Models that tests read: StableHLO in the process of the test, and figures of any model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from shardmark.instances.files.jsonfile import read_bytes
from shardmark.instances.models.devices import device
from shardmark.instances.models.model import Model
from shardmark.instances.models.roofline import roofline
from shardmark.instances.models.stablehlo.module import parse
from shardmark.instances.models.stablehlo_file import model_of


def read_stablehlo(
    path: str | os.PathLike[str],
    tell: Callable[[str], None] = lambda _: None,
    branches: Mapping[str, str] | None = None,
) -> Model:
    """The model of a file; a crash of MLIR ends the test run."""
    return model_of(parse(read_bytes(path), os.fspath(path)), os.fspath(path), tell, branches)


def kinds(model: Model) -> list[str]:
    return [operator.kind for operator in model.operators]


def flops(model: Model) -> int:
    return sum(operator.flops for operator in model.operators)


def seconds(model: Model) -> float:
    """Time of all operators, one after another, on an h100."""
    return float(roofline(model, device("h100")).seconds.sum())
