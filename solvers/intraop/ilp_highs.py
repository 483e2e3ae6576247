"""The integer program solved by HiGHS."""

from __future__ import annotations

from typing import Any

from instances.intraop import Instance
from solvers.intraop.programs.baseline import Task, solve
from solvers.intraop.programs.floating_point import FloatProgram
from solvers.intraop.programs.mathopt import minimise
from solvers.registry import Run, solver

#: Bytes that HiGHS and the transfer to it need per entry of the program (measured: 790).
BYTES = 850


@solver(track="intraop", source="XLA auto-sharding's integer program; Huangfu and Hall 2018, HiGHS")
def ilp_highs(instance: Instance, run: Run) -> None:
    """Solve the integer program of XLA's auto-sharding on the instance as it is, from a greedy solution (HiGHS).

    The program is that of `ilp-cpsat`; bounds are lowered by the tolerances of HiGHS (see `programs.floating_point`),
    which reports only when it ends. If the program would take too much memory, only the greedy solution is reported.
    """
    solve(instance, run, _engine, reduced=False)


def _engine(task: Task) -> bool:
    program = task.program(BYTES)
    if program is None:
        return True
    floats = FloatProgram(program, task.top)
    hint = None if task.start is None else floats.columns(task.start)
    answer = minimise(floats, task.until, integer=True, hint=hint, **_parameters(task))
    if answer is None:
        task.ended = "no answer, it was killed or failed"
        return True
    task.ended = answer.ended
    if len(answer.column):
        task.offer(program.values(answer.column))
    if answer.infeasible:
        return task.start is not None
    task.prove(floats.bound(answer.bound))
    return True


def _parameters(task: Task) -> dict[str, Any]:
    """Do not stop at a gap; use as many threads as there are cores."""
    options = {
        "string_options": {"parallel": "on" if task.run.cores > 1 else "off"},
        "int_options": {"threads": task.run.cores},
    }
    return {
        "random_seed": task.run.seed % 2**31,
        "relative_gap_tolerance": 0.0,
        "absolute_gap_tolerance": 0.0,
        "highs": options,
    }
