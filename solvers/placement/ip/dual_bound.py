"""The bound of the relaxation of an integer program, safe for any rounding of the dual values."""

from __future__ import annotations

from itertools import chain

import numpy as np

from instances.files.columns import Floats
from instances.rounding import safely
from solvers.placement.ip.floating_point import FloatProgram
from solvers.placement.ip.highs import relaxed
from solvers.placement.ip.incumbent import Incumbent
from solvers.placement.ip.program import LoadProgram

#: A sum of products of m numbers is off by at most m + 4 times this, relative to the sum of their magnitudes.
EPSILON = 2.0**-52


def relax(incumbent: Incumbent, program: LoadProgram, part: int, seconds: float) -> None:
    """Report what the relaxation of a program, if it is solved within some seconds, proves for its part."""
    floats = FloatProgram(program)
    dual = relaxed(floats, seconds) if seconds else None
    if dual is not None:
        incumbent.prove(part, proved(program, floats, dual))


def proved(program: LoadProgram, floats: FloatProgram, dual: Floats) -> float:
    """Lower bound on the cost of a placement from one dual value per row of the relaxation, shape (rows,).

    Any values give a bound, by the sum of the rows times them: for each row the least by the value's sign that it can
    be, and for each column the least, from 0 to its top, of what its cost is beyond that sum. What roundings can come
    to is taken off; those of times that were added up for items, too. What the program leaves out costs more than
    ``upper``.
    """
    columns, factors, low, high = zip(*floats.rows(), strict=True)
    sizes = np.array([len(part) for part in columns])
    column = np.fromiter(chain.from_iterable(columns), dtype=np.int64, count=int(sizes.sum()))
    factor = np.fromiter(chain.from_iterable(factors), dtype=np.float64, count=len(column))
    product = factor * np.repeat(dual, sizes)
    cost, top = np.array(floats.cost), np.array(floats.top)
    total, magnitude, entries = (
        np.bincount(column, weights, len(cost)) for weights in (product, np.abs(product), np.ones(len(column)))
    )
    beyond = cost - total - (entries + 4) * EPSILON * (cost + magnitude)
    terms = np.concatenate([dual * np.where(dual > 0, low, high), np.minimum(0.0, beyond) * top])
    least = float(terms.sum()) - (len(terms) + 4) * EPSILON * float(np.abs(terms).sum())
    instance = program.items.instance
    return safely(min(least / floats.scale, program.upper), instance.nodes + instance.edges)
