"""StableHLO programs, such as JAX training steps, as instances of any track, with operator times for a kind of device.

FILE is the text of a program, or the portable artifact that ``jax.export`` writes. Calls are inlined and loops
unrolled; loops of unknown length and sizes that are not numbers are refused. Backward operators are recognised by JAX's
location names, so include them: ``jax.jit(step).lower(...).as_text(debug_info=True)``. This importer needs JAX (extra
``stablehlo``).

The options are those of ``shardmark import onnx``, without ``--dim``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shardmark.instances.importers import Option
from shardmark.instances.importers._models import OPTIONS as OPTIONS_OF_MODELS
from shardmark.instances.importers._models import instance_of

TRACK = "pipeline"
TELLS = True
OPTIONS: Mapping[str, Option] = OPTIONS_OF_MODELS


def read(path: Path, *, tell: Callable[[str], None], **given: Any) -> Any:
    """Read a program, plain or gzip, as an instance; InputError if the program has none."""
    from shardmark.instances.models.stablehlo.apart import read_stablehlo

    return instance_of(read_stablehlo(path, tell), **given)
