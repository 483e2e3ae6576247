"""The bound of the relaxation of an integer program, valid for any dual values."""

from __future__ import annotations

from itertools import chain

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.rounding import safely
from shardmark.solvers.placement.ip.floating_point import FloatProgram
from shardmark.solvers.placement.ip.incumbent import Incumbent
from shardmark.solvers.placement.ip.program import LoadProgram
from shardmark.solvers.placement.ip.relaxation import dual_values

#: Dual values are clipped to this; engines in numerical trouble may exceed it.
MOST_DUAL = 1e30
#: A sum of products of m numbers is off by at most m + 4 times this, relative to the sum of their magnitudes.
EPSILON = 2.0**-52


def relax(incumbent: Incumbent, program: LoadProgram, part: int, seconds: float) -> None:
    """Report the bound of a program's relaxation for its part, if it is solved within ``seconds``."""
    floats = FloatProgram(program)
    dual = dual_values(floats, seconds) if seconds else None
    if dual is not None:
        incumbent.prove(part, proved(program, floats, dual))


def proved(program: LoadProgram, floats: FloatProgram, dual: Floats) -> float:
    """Lower bound on the cost of a placement from one dual value per row of the relaxation, shape (rows,).

    Any dual values give a bound: the sum of dual value times row limit (lower or upper, by the sign of the value), plus
    the least contribution of each column, between 0 and its top, at its reduced cost. The bound is lowered by all
    possible rounding errors, including those of times summed over items. Placements outside the program cost more than
    ``upper``.
    """
    columns, factors, low, high = zip(*floats.rows(), strict=True)
    dual = np.clip(np.nan_to_num(dual), -MOST_DUAL, MOST_DUAL)
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
