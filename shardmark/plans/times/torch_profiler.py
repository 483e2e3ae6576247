"""Traces of PyTorch's profiler: the Chrome trace that it exports, and the table of its averages.

Times are those of the GPU's kernels if there are any, each of which counts for the operator that launched it; else
those of the CPU.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import shortened
from shardmark.plans.times.measured import UNITS, Event, Measured, Shapes

_ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
_ON_CPU = {"cpu_op", "user_annotation"}
LONGEST_US = 1e17  # some thousand years
_TIME = re.compile(r"([0-9]+(?:\.[0-9]*)?)(ns|us|ms|s)")


def read_trace(events: Any, source: str) -> Measured:
    """The ranges and operators of a Chrome trace, given its list of events."""
    if not isinstance(events, list):
        raise InputError(source, "traceEvents", "expected a list of events, as PyTorch's profiler exports")
    device: dict[Any, float] = defaultdict(float)
    threads: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for number, event in enumerate(events):
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        category, given = str(event.get("cat")), event.get("args")
        if category not in _ON_DEVICE | _ON_CPU:
            continue
        begin: Any = event.get("ts")
        length: Any = event.get("dur")
        if not all(type(time) in (int, float) and 0 <= time <= LONGEST_US for time in (begin, length)):
            expected = "expected numbers ts and dur in microseconds, at least 0"
            raise InputError(source, f"traceEvents[{number}]", expected)
        arguments = given if isinstance(given, dict) else {}
        if category in _ON_DEVICE:
            device[_launch(arguments)] += length * UNITS["us"]
        else:
            known = {"name": str(event.get("name")), "ts": begin, "dur": length, "args": arguments}
            threads[str(event.get("pid")), str(event.get("tid"))].append(known)
    if not threads:
        raise InputError(source, "traceEvents", "expected operators or ranges (cpu_op, user_annotation), found none")
    found = [event for thread in threads.values() for event in _nested(thread, device)]
    return Measured(f"PyTorch trace, times of the {'GPU' if device else 'CPU'}", events=found)


def _launch(arguments: Mapping[str, Any]) -> str | None:
    """What a kernel and the operator that launched it have in common; None for a kernel or range without it."""
    number = arguments.get("External id")
    return None if number is None else str(number)


def _nested(thread: list[Mapping[str, Any]], device: Mapping[Any, float]) -> Iterator[Event]:
    """The events of a thread, each after those around it."""
    thread.sort(key=lambda event: (event["ts"], -event["dur"]))
    open_until: list[tuple[float, int]] = []
    depths: list[int] = []
    total: list[float] = []

    def close() -> None:
        _, inner = open_until.pop()
        if open_until:
            total[open_until[-1][1]] += total[inner]

    for number, event in enumerate(thread):
        while open_until and open_until[-1][0] <= event["ts"]:
            close()
        depths.append(len(open_until))
        launch = _launch(event["args"])
        total.append(0.0 if launch is None else device.get(launch, 0.0))
        open_until.append((event["ts"] + event["dur"], number))
    while open_until:
        close()
    for event, depth, seconds in zip(thread, depths, total, strict=True):
        sizes = event["args"].get("Input Dims")
        time = seconds if device else event["dur"] * UNITS["us"]
        yield Event(event["name"], None if sizes is None else _shapes(sizes), time, depth)


def _shapes(sizes: Any) -> Shapes:
    """All shapes in nested lists of sizes, those of scalars and other arguments left out.

    >>> _shapes([[4, 8], [], [[2, 3], [2, 5]]])
    ((4, 8), (2, 3), (2, 5))
    """
    if not isinstance(sizes, list) or not sizes:
        return ()
    if all(type(size) is int for size in sizes):
        return (tuple(sizes),)
    return tuple(shape for inner in sizes for shape in _shapes(inner))


def shapes_in(text: str) -> Shapes | None:
    """The shapes in a text with nested lists of sizes; None for any other text."""
    try:
        return _shapes(json.loads(text))
    except (ValueError, RecursionError):
        return None


def is_averages(text: str) -> bool:
    """True for the text of ``key_averages().table()``."""
    head = text.lstrip().splitlines()[:2]
    return len(head) == 2 and set(head[0]) <= {"-", " "} and "# of Calls" in head[1]


def read_averages(text: str, source: str) -> Measured:
    """The rows of ``key_averages(group_by_input_shape=True).table(...)``."""
    lines = text.lstrip("\n").splitlines()
    columns = [match.span() for match in re.finditer("-+", lines[0])]
    header = [lines[1][begin:end].strip() for begin, end in columns]
    averages = [name for name in header if name.endswith("time avg")]
    on_device = [name for name in averages if name != "CPU time avg"]
    if "Name" not in header or not averages:
        raise InputError(source, "line 2", "expected columns Name and CPU time avg (or CUDA time avg)")
    wanted = (on_device or averages)[0]
    events = []
    for number, line in enumerate(lines[3:], 4):
        if set(line) <= {"-", " "}:
            break
        cells = dict(zip(header, (line[begin:end].strip() for begin, end in columns), strict=True))
        match = _TIME.fullmatch(cells[wanted])
        if match is None:
            raise InputError(source, f"line {number}", f"expected {wanted}, such as 12.3us, found {cells[wanted]!r}")
        events.append(Event(cells["Name"], _recorded(cells, source, number), float(match[1]) * UNITS[match[2]]))
    else:
        raise InputError(source, f"line {len(lines)}", "expected a line of dashes at the end, found a table cut short")
    return Measured(f"PyTorch averages, {wanted}", events=events, nested=False)


def _recorded(cells: Mapping[str, str], source: str, number: int) -> Shapes | None:
    text = cells.get("Input Shapes")
    if text is None:
        return None
    for name in ("Name", "Input Shapes"):
        if cells[name].endswith("..."):
            wide = "max_name_column_width=1000, max_shapes_column_width=1000"
            expected = f"expected whole names and shapes (table({wide})), found {shortened(cells[name])}"
            raise InputError(source, f"line {number}", expected)
    found = shapes_in(text or "[]")
    if found is None:
        raise InputError(source, f"line {number}", f"expected lists of sizes, found {shortened(text)}")
    return found


def events_of(document: Any) -> Sequence[Any] | None:
    """The events of a document that is a Chrome trace; else None."""
    return (
        document.get("traceEvents") if isinstance(document, dict) else document if isinstance(document, list) else None
    )
