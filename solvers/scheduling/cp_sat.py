"""CP-SAT: devices and starting times of small graphs, in integers; times are rounded down so that bounds hold."""

from __future__ import annotations

import time
from collections.abc import Sequence

from instances.files.columns import Ints
from instances.scheduling import Instance
from solvers._cpsat import answer, core, set_up
from solvers.registry import Declined, Run, solver
from solvers.scheduling._kernels import Simulator
from solvers.scheduling.exact.model import Model, clock
from solvers.scheduling.exact.rules import add_rules, small
from solvers.scheduling.schedules.annealing import Best, begin, improve
from solvers.scheduling.schedules.deadline import Deadline
from solvers.scheduling.schedules.heads_tails import HeadsTails, heads_and_tails, proved

#: Terms for pairs of devices that tensors pass between, and vertices on devices, that fit into a model.
MOST = 100_000

#: Constraints that are written down in a second, or more.
PACE = 20_000

#: Share of the time left that heads and tails may take, as it is foreseen.
SHARE = 0.1

#: Share of the time for moves, whose best schedule the model begins with.
FIRST = 0.3

#: Share of the time for writing the model that CP-SAT may need to notice that its time is over.
NOTICE = 0.25


#: Why there is no schedule: that is proven, or it is not known.
NONE = "no schedule fits the memory and the links of the devices"
UNKNOWN = "found no schedule that fits the memory and the links of the devices, and no proof that there is none"


@solver(track="scheduling", name="cp-sat", source="disjunctive scheduling with CP-SAT of OR-tools", deterministic=False)
def cp_sat(instance: Instance, run: Run) -> None:
    """Choose devices and starting times in one model, begun with HEFT improved by moves; proves bounds.

    Of small graphs memory, queues of tensors and that nothing waits without a reason are in it, of others memory where
    no schedule is known that fits; links that are shared are independent in it. What holds for all schedules of the
    model bounds theirs; each that is found is run, and reported if memory suffices. It ends with a schedule, a proof
    that none fits, or word that neither was found.

    The first bound follows paths, as `critical-path` does. Later ones are CP-SAT's, whose search in integers is not
    checked; nor is its word that no schedule fits, unless one is known.
    """
    terms = instance.edges * instance.devices**2 + instance.nodes * instance.devices
    constraints = (instance.edges + 3 * instance.nodes) * (instance.devices + 1)
    if terms > MOST:
        raise Declined(f"the model would have {terms} terms, more than {MOST}")
    if constraints > PACE * run.remaining():
        raise Declined(f"the model would have {constraints} constraints, more than there is time to write down")
    run.bound(instance.simple_bound())
    deadline = Deadline(run)
    best = begin(Simulator(instance), run)
    if not small(instance):
        improve(best, deadline.remaining() * FIRST)
    ends = heads_and_tails(instance, run.remaining() * SHARE)
    run.bound(proved(ends.longest(), instance))
    if not best.done:
        _solve(best, ends, deadline)


def _solve(best: Best, ends: HeadsTails, deadline: Deadline) -> None:
    """Search until the time is over, hand in schedules and bounds; Declined if no schedule is found that fits.

    Solutions of the model that turn out not to fit are excluded until one does or none is left: links are not shared in
    the model, times are rounded, and what is held is released a little early.
    """
    instance, run, begun = best.simulator.instance, best.run, time.monotonic()
    longest = best.makespan if best.fits else instance.horizon() * (1 + 1e-9) or 1.0
    model, found = Model(instance, ends, clock(instance, longest)), list[tuple[Ints, Ints]]()
    if small(instance) or not best.fits:
        add_rules(model)  # they make more schedules of large graphs possible to find, and bounds slower
    if best.fits:
        model.hint(best.device, best.sequence)
    notice = NOTICE * (time.monotonic() - begun)

    def offer(solution: Sequence[int]) -> None:
        found.append(model.found(solution))
        best.take(found[-1][0], best.simulator.in_sequence(*found[-1]))

    status, later = None, deadline.remaining() / 2 if small(instance) and not best.fits else 0.0  # for moves
    while (seconds := deadline.remaining() - notice) > 0:
        if seconds <= later:
            improve(best, seconds * FIRST)
            later = 0.0
            continue
        parameters = core().SatParameters()
        cumulative = model.writer.cumulative
        set_up(parameters, run.cores, run.seed, seconds - later, turns=True, cumulative=cumulative, enforced=True)
        response = answer(model.writer.proto, parameters, offer, lambda bound: run.bound(model.proved(bound)))
        status, excluded = response.status, sum(model.exclude(*schedule) for schedule in found)
        if status != core().INFEASIBLE and response.inner_objective_lower_bound > 0:
            run.bound(model.proved(response.inner_objective_lower_bound))
        if best.fits or status == core().INFEASIBLE or (status == core().OPTIMAL and not excluded):
            break
    if not best.fits:
        raise Declined(NONE if status == core().INFEASIBLE else UNKNOWN)
