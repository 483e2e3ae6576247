"""Summaries of Nsight Systems: CSV of ``nsys stats`` for ranges (``nvtx_sum``) and kernels (``cuda_gpu_kern_sum``).

Ranges are found by their names: an operator, a module, or what ``torch.autograd.profiler.emit_nvtx`` writes, such as
``aten::mm, seq = 7, sizes = [[8, 512], [512, 64]]``. Kernels do not tell their operators. Their totals, in a profile of
one run, scale the roofline: one total of matrix products and convolutions, another of everything else.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict

from shardmark.instances import InputError
from shardmark.plans.times.measured import UNITS, Event, Measured
from shardmark.plans.times.torch_profiler import shapes_in

_HEADER = re.compile(r"^\"?(Time ?\(%\)|Time)\"?,\"?Total Time \((ns|us|ms|s)\)\"?,.*$", re.MULTILINE)
_SIZES = re.compile(r"(?P<name>[^,]+)(, (?:seq|op_id) = [^,\[]*)*, sizes = (?P<sizes>\[.*?\])(, input_op_ids.*)?")
_PRODUCT = re.compile(r"gemm|gemv|cutlass|cublas|conv|wgrad|dgrad|xmma|fmha|flash|winograd", re.IGNORECASE)


def is_summary(text: str) -> bool:
    """True for the CSV of ``nsys stats``, with or without the notes around it."""
    return _HEADER.search(text) is not None


def read_summary(text: str, source: str) -> Measured:
    """Ranges with their average times, and totals of kernels."""
    events: list[Event] = []
    kernels: dict[bool, float] = defaultdict(float)
    for match in _HEADER.finditer(text):
        begin = text.count("\n", 0, match.start()) + 1
        block = text[match.start() :].split("\n\n")[0]
        _read_block(block, begin, source, events, kernels)
    if not events and not kernels:
        raise InputError(source, "", "expected rows of nvtx_sum or cuda_gpu_kern_sum, found none")
    return Measured("Nsight Systems summary", events=events, nested=False, kernels=dict(kernels))


def _read_block(block: str, begin: int, source: str, events: list[Event], kernels: dict[bool, float]) -> None:
    """Read one summary, whose header is on line ``begin``."""
    reader = csv.DictReader(io.StringIO(block), strict=True)
    columns = [name or "" for name in reader.fieldnames or ()]
    total = next(name for name in columns if name.startswith("Total Time ("))
    unit = UNITS[total[len("Total Time (") : -1]]
    about = "Range" if "Range" in columns else "Name"
    instances = next((name for name in columns if name in ("Instances", "Num Calls", "Range Instances")), None)
    if about not in columns or instances is None:
        raise InputError(source, f"line {begin}", "expected columns Instances, and Range or Name")
    try:
        for row in reader:
            try:
                seconds, number = float(row[total]) * unit, int(row[instances])
                if not 0 <= seconds < 1 / UNITS["ns"] or number < 1:
                    raise ValueError
            except (TypeError, ValueError):
                place = f"line {begin + reader.line_num - 1}"
                raise InputError(source, place, f"expected numbers in {total} and {instances}") from None
            if about == "Range":
                events.append(_event(row["Range"] or "", seconds / number))
            else:
                kernels[_PRODUCT.search(row["Name"] or "") is not None] += seconds
    except csv.Error as error:
        raise InputError(source, f"line {begin + reader.line_num - 1}", f"expected a row of CSV ({error})") from None


def _event(text: str, seconds: float) -> Event:
    """A range of a domain, ``domain:name`` or ``:name``."""
    name = text[1:] if text.startswith(":") else text
    match = _SIZES.fullmatch(name)
    if match is None:
        return Event(name, None, seconds)
    return Event(match["name"], shapes_in(match["sizes"]), seconds)
