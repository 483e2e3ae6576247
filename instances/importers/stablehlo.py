"""StableHLO programs, such as the training steps of JAX, priced for devices, as instances of the track of your choice.

FILE is the text of a program, or the portable artifact that ``jax.export`` writes. Calls are inlined; loops and sizes
that are not numbers are refused. Backward operators are told by JAX's names of locations, so lower the text with them:
``jax.jit(step).lower(...).as_text(debug_info=True)``. Needs JAX, the extra ``stablehlo``.

The options are those of ``shardmark import onnx``, but for sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from instances.importers import Option
from instances.importers._models import OPTIONS as OPTIONS_OF_MODELS
from instances.importers._models import instance_of

TRACK = "pipeline"
TELLS = True
OPTIONS: Mapping[str, Option] = OPTIONS_OF_MODELS


def read(path: Path, *, tell: Callable[[str], None], **given: Any) -> Any:
    """The instance of a program, plain or gzip; InputError for a program without one."""
    from instances.models.stablehlo_file import read_stablehlo

    return instance_of(read_stablehlo(path, tell), **given)
