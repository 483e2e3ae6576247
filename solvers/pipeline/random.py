"""Random node priorities, each order sliced optimally."""

from __future__ import annotations

from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.search.orders import Search
from shardmark.solvers.registry import Run, solver


@solver(
    track="pipeline",
    source="Archer et al. 2024, Section 4.2 and Appendix C.1",
    variants={f"random-{orders}": {"orders": orders} for orders in (1, 100, 10000)},
    proves_bounds=False,
)
def random(instance: Instance, run: Run, *, orders: int) -> None:
    """Slice random topological orders optimally into stages; keep the best."""
    search = Search(instance, run)
    done, rows = 0, 1
    while done < orders and not (done and search.over()):
        search.decode(run.rng.random((rows, instance.nodes)), search.target)
        done += rows
        rows = min(2 * rows, search.rows, orders - done)  # report the first solution after one order
