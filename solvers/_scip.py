"""SCIP for solvers of several tracks: a quiet model, its proved bound, and callbacks during the search."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

#: A dual bound this close to the primal one, relatively, counts as equal.
SAME = 1e-6


def model() -> Any:
    """An empty model that prints nothing."""
    from pyscipopt import SCIP_PARAMSETTING, Model

    made = Model()
    made.hideOutput()
    made.setPresolve(SCIP_PARAMSETTING.FAST)  # full presolve can overrun the time limit many times
    return made


def proved(model: Any) -> float:
    """The proved dual bound of a model; minus infinity if it proves nothing.

    While SCIP frees a tree after a limit, it reports its primal bound as the dual one.
    """
    dual = float(model.getDualbound())
    cut_short = model.getStatus() != "optimal" and dual >= model.getPrimalbound() * (1 - SAME)
    return -math.inf if cut_short else dual


def listen(model: Any, solution: Callable[[], None], bound: Callable[[], None]) -> None:
    """Call ``solution`` whenever the model has a better one, and ``bound`` whenever its bound may have risen."""
    from pyscipopt import SCIP_EVENTTYPE, Eventhdlr  # so the class is defined here

    # Not DUALBOUNDIMPROVED: SCIP also raises it while it frees a tree, at a restart or at the end.
    watched = (SCIP_EVENTTYPE.BESTSOLFOUND, SCIP_EVENTTYPE.LPSOLVED, SCIP_EVENTTYPE.NODESOLVED)

    class Listener(Eventhdlr):
        def eventinit(self) -> None:
            for event in watched:
                self.model.catchEvent(event, self)

        def eventexit(self) -> None:
            for event in watched:
                self.model.dropEvent(event, self)

        def eventexec(self, event: Any) -> None:
            (solution if event.getType() == SCIP_EVENTTYPE.BESTSOLFOUND else bound)()

    model.includeEventhdlr(Listener(), "listener", "tells of bounds and solutions")
