"""Runs ONNX models with ONNX Runtime as plans count them: constants folded, every other operator as it is, one thread.

Constants are folded before the model is loaded, and all graph optimisations of ONNX Runtime are off. It would fuse
operators across the cuts of a plan, and time the fused ones.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.models.model import Tensor
from shardmark.instances.models.onnx_file import UNFOLDED
from shardmark.plans.exports.external_data import common_folder
from shardmark.plans.exports.onnx_graph import STANDARD, header, reads
from shardmark.plans.runs.values import Value, shares_memory, to_array, to_value

LEAST_RUNS, MIN_RUNS, MAX_RUNS = 5, 20, 200  # however long they take; in the time given; in any case
NOTCH = 1.57  # interquartile ranges / sqrt(n) that the medians of two samples differ by at 95 % (McGill et al. 1978)
LARGE = 1024  # bytes of a constant; smaller ones may be shapes, whose values the runtime must know
STANDS = 0.02  # relative error of a median that stands


class Session:
    """A loaded model; ``inputs`` and ``outputs`` are names of tensors."""

    def __init__(self, model: Any, path: Path, profile: Path | None = None) -> None:
        """Load an `onnx.ModelProto`, which is changed.

        ``path`` is the model's file, which errors name; external data are where `locate_weights` finds them.
        ``profile`` begins the names of the profiler's files; None leaves the profiler off.

        Raises InputError if ONNX Runtime is not installed or does not take the model.
        """
        self._path = path
        self._weights = fold_constants(model, path)
        options = _options(path)
        if self._weights:
            names = list(self._weights)
            options.add_external_initializers(names, [self._weights[name] for name in names])
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = str(profile)
        self._session = _loaded(model, options, path)
        self.inputs = [port.name for port in self._session.get_inputs()]
        self.outputs = [port.name for port in self._session.get_outputs()]

    def run(self, tensors: Mapping[str, Value]) -> dict[str, Value]:
        """Return the outputs for the inputs, which are among ``tensors``."""
        values = _run(self._session, self.outputs, {name: tensors[name] for name in self.inputs}, self._path)
        return dict(zip(self.outputs, values, strict=True))

    def end_profiling(self) -> Path:
        """Stop the profiler, and return its file."""
        return Path(self._session.end_profiling())


def _runtime(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        expected = "expected onnxruntime, which runs the model: pip install onnxruntime"
        raise InputError(path, "", expected) from None
    return onnxruntime


def _options(path: Path) -> Any:
    runtime = _runtime(path)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # fatal; errors are raised
    folder = os.fsencode(common_folder(path))  # names need not be UTF-8
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    return options


def _loaded(model: Any, options: Any, path: Path) -> Any:
    try:
        content = model.SerializeToString()
        return _runtime(path).InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime has no common base class of its errors
        raise _refused(error, path) from None


def expanded(model: Any, path: Path, scratch: Path) -> Any:
    """A model with a kernel of ONNX Runtime for each of its nodes; the runtime writes it to the file ``scratch``."""
    import onnx

    options = _options(path)
    options.optimized_model_filepath = str(scratch)
    _loaded(model, options, path)
    return onnx.load(scratch)


def _run(session: Any, outputs: Sequence[str], inputs: Mapping[str, Value], path: Path) -> list[Value]:
    try:
        values: list[Value] = session.run_with_ort_values(outputs, inputs)
    except Exception as error:
        raise _refused(error, path) from None
    return values


def _refused(error: Exception, path: Path) -> InputError:
    why = " ".join(str(error).split())[:300]
    version = _runtime(path).__version__
    return InputError(path, "", f"expected a model that ONNX Runtime runs, which version {version} does not ({why})")


def fold_constants(model: Any, path: Path) -> dict[str, Value]:
    """Replace the nodes of a model that depend only on constants by initializers.

    Returns the values of the large ones, which the session must be given: a model with all of them may be larger than a
    protobuf can be. The IR version becomes at least 4, so that no input is an initializer.
    """
    from onnx import TensorProto, numpy_helper

    graph = model.graph
    model.ir_version = max(model.ir_version, 4)
    known = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
    inputs = [info for info in graph.input if info.name not in known]
    constants: list[Any] = []
    others: list[Any] = []
    for node in graph.node:
        foldable = node.domain in STANDARD and node.op_type not in UNFOLDED
        constant = foldable and known.issuperset(reads(node))
        (constants if constant else others).append(node)
        known.update(node.output if constant else ())
    wanted = {name for node in others for name in reads(node)} | {info.name for info in graph.output}
    names = [name for node in constants for name in node.output if name in wanted]
    values = _values(model, constants, names, path) if names else []
    for field, kept in (("input", inputs), ("node", others)):
        kept = list(kept)
        graph.ClearField(field)
        getattr(graph, field).extend(kept)
    large = {}
    for name, value in zip(names, values, strict=True):
        array = to_array(value)
        if array.nbytes <= LARGE or not shares_memory(array.dtype):
            graph.initializer.append(numpy_helper.from_array(array, name))
            continue
        tensor = graph.initializer.add(name=name, data_type=value.element_type(), dims=value.shape())
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="folded")
        large[name] = to_value(array)
    return large


def _values(model: Any, constants: Sequence[Any], names: Sequence[str], path: Path) -> list[Value]:
    """Values of tensors that follow from constants alone."""
    part = header(model)
    part.graph.node.extend(constants)
    part.graph.initializer.extend(model.graph.initializer)
    part.graph.sparse_initializer.extend(model.graph.sparse_initializer)
    for name in names:
        part.graph.output.add(name=name)
    return _run(_loaded(part, _options(path), path), names, {}, path)


def random_inputs(model: Any, tensors: Mapping[str, Tensor], seed: int = 0) -> dict[str, Value]:
    """Inputs of a model: floats from [0, 1), integers 0 and 1, which are indices of any table."""
    random = np.random.default_rng(seed)
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs: dict[str, Value] = {}
    for tensor in (tensors[info.name] for info in model.graph.input if info.name not in stored):
        whole = "int" in tensor.dtype or tensor.dtype == "bool"
        numbers = random.integers(0, 2, tensor.shape) if whole else random.random(tensor.shape)
        inputs[tensor.name] = to_value(np.asarray(numbers).astype(np.dtype(tensor.dtype)))
    return inputs


def stable_median(run: Callable[[], object], seconds: float) -> float:
    """Median CPU time of a call in seconds, measured in this thread, the only one that computes.

    After a call that warms up, the call is repeated `MIN_RUNS` times and for one second, and on until the 95 %
    confidence interval of the median is within 2 %, at most `MAX_RUNS` times. After ``seconds``, `LEAST_RUNS` suffice.
    """
    run()
    begin = time.perf_counter()
    times: list[float] = []
    while len(times) < MAX_RUNS:
        started = time.thread_time()
        run()
        times.append(time.thread_time() - started)
        elapsed = time.perf_counter() - begin
        if len(times) >= LEAST_RUNS and elapsed > seconds:
            break
        if len(times) >= MIN_RUNS and elapsed > 1 and is_stable(times):
            break
    return float(np.median(times))


def is_stable(times: Sequence[float]) -> bool:
    """True if the relative 95 % confidence interval of the median is narrow."""
    lower, median, upper = np.percentile(times, (25, 50, 75))
    return bool(NOTCH * (upper - lower) <= STANDS * median * math.sqrt(len(times)))
