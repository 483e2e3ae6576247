"""StableHLO files, read in a process of their own: MLIR crashes on some content, and never comes back from some.

``python -m shardmark.instances.models.stablehlo.apart SOURCE BRANCHES`` gets the content on its standard input, and
the choices of branches as JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import read_bytes
from shardmark.instances.models.model import Model

LARGEST = 1 << 30  # bytes of a file
#: CPU seconds to parse a file: at least, and per MiB. On one core MLIR takes 0.1 s per MiB of text.
LONGEST, LONGEST_PER_MIB = 60, 5


def read_stablehlo(
    path: str | os.PathLike[str],
    tell: Callable[[str], None] = lambda _: None,
    branches: Mapping[str, str] | None = None,
) -> Model:
    """The model of MLIR text, of a portable artifact, or of a serialised ``jax.export.Exported``, plain or gzip.

    ``tell`` is called with sentences on doubts; ``branches`` has choices by name. Raises InputError for anything that
    is not StableHLO with static shapes and loops of known lengths, and if MLIR crashes or takes too long.
    """
    source, content = os.fspath(path), read_bytes(path, LARGEST)
    command = [sys.executable, "-P", "-m", __name__, source, json.dumps(dict(branches or {}))]
    done = subprocess.run(command, input=content, capture_output=True, check=False)
    if done.returncode < 0:
        raise InputError(source, "", _crash(-done.returncode, len(content)))
    if done.returncode:
        raise RuntimeError(f"the process that reads StableHLO failed: {done.stderr.decode(errors='replace')}")
    sentences, found = pickle.loads(done.stdout)
    if isinstance(found, tuple):
        raise InputError(*found)
    for sentence in sentences:
        tell(sentence)
    return found


def _crash(number: int, size: int) -> str:
    """Return what was expected of a file if signal ``number`` ended the process that read it."""
    limit, _ = resource.getrlimit(resource.RLIMIT_CPU)
    unlimited = limit == resource.RLIM_INFINITY
    if number == signal.SIGXCPU:
        seconds = _seconds(size) if unlimited else min(limit, _seconds(size))
        return f"expected StableHLO that MLIR can parse within {seconds} s of CPU time"
    cause = "memory" if unlimited else f"memory, or because `ulimit -t` allows {limit} s of CPU time"
    lack = f" for lack of {cause}" if number == signal.SIGKILL else ""
    return f"expected StableHLO that MLIR can parse, but it crashed{lack} ({signal.strsignal(number)})"


def _seconds(size: int) -> int:
    return LONGEST + LONGEST_PER_MIB * (size >> 20)


@contextmanager
def limited(size: int) -> Iterator[None]:
    """End this process by SIGXCPU, without a core file, if the block takes too long for content of so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + 1 + _seconds(size)
    least = [limit for limit in (until, *before) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_CPU, (min(least), before[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, before)


def main() -> None:
    """Read the content on standard input; write its sentences and model, or what was refused, to standard output."""
    from shardmark.instances.models.stablehlo.module import parse
    from shardmark.instances.models.stablehlo_file import model_of

    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may be printed there
    source, branches = sys.argv[1], json.loads(sys.argv[2])
    content, sentences = sys.stdin.buffer.read(), list[str]()
    found: Model | tuple[str, str, str]
    try:
        with limited(len(content)):
            module = parse(content, source)
        found = model_of(module, source, sentences.append, branches)
    except MemoryError as error:
        why = f" ({error})" if str(error) else ""
        found = source, "", f"expected enough memory to read StableHLO{why}"
    except InputError as error:
        found = error.source, error.place, error.expected
    with output:
        pickle.dump((sentences, found), output, pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
