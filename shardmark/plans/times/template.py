"""The table of times to fill in: a row per operator of a plan, with the roofline beside it."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping

from shardmark.instances.files.jsonfile import read_bytes, require_writable, write_bytes
from shardmark.instances.models.devices import device as device_of
from shardmark.instances.models.reader import is_onnx, read_model
from shardmark.instances.models.roofline import roofline
from shardmark.plans.joining import Joined
from shardmark.plans.times.table import shapes_read, shapes_text


def write_template(
    path: str | os.PathLike[str],
    model: str | os.PathLike[str],
    *,
    device: str | os.PathLike[str],
    dims: Mapping[str, int],
    branches: Mapping[str, str],
    fuse: bool | None,
    tell: Callable[[str], None],
) -> int:
    """Write a CSV table with a row for every operator, or fused chain, that takes time; return the number of rows.

    The column ``time_us`` is empty: an operator whose time is not filled in has none. The other arguments are those of
    `shardmark.plan`. Raises InputError for bad input and for a path that cannot be written.
    """
    kind = device_of(device)
    require_writable(path)
    whole = read_model(model, dims, tell, branches)
    fused = not is_onnx(read_bytes(model)) if fuse is None else fuse
    chains = Joined.of(whole, fused=fused, passes=False).chains
    by_name = {operator.name: operator for operator in whole.operators}
    stream = io.StringIO()
    out = csv.writer(stream, lineterminator="\n")
    out.writerow(["operator", "kind", "shapes", "pass", "roofline_us", "time_us"])
    timed = [
        (o, s) for o, s in zip(chains.operators, roofline(chains, kind).seconds.tolist(), strict=True) if not o.view
    ]
    for operator, seconds in timed:
        shapes = shapes_text(shapes_read(whole, by_name[operator.name]))
        late = "backward" if operator.backward else "forward"
        out.writerow([operator.name, operator.kind, shapes, late, f"{1e6 * seconds:.6g}", ""])
    write_bytes(path, stream.getvalue().encode())
    return len(timed)
