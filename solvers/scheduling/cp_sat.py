"""CP-SAT: devices and starting times of small graphs, in integers, rounded down so that bounds hold."""

from __future__ import annotations

import time
from collections.abc import Sequence

from shardmark.instances.files.columns import Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers._cpsat import answer, core, set_up
from shardmark.solvers.registry import Declined, Run, solver
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.exact.model import Model, clock
from shardmark.solvers.scheduling.exact.rules import add_rules, small
from shardmark.solvers.scheduling.schedules.annealing import Best, begin, improve
from shardmark.solvers.scheduling.schedules.deadline import Deadline
from shardmark.solvers.scheduling.schedules.formulas import all_schedules, certify, critical_cases, heads
from shardmark.solvers.scheduling.schedules.heads_tails import HeadsTails, heads_and_tails, proved

#: Most terms of a model: edges times pairs of devices, plus vertices times devices.
MOST = 100_000

#: Constraints written per second, a low estimate.
PACE = 20_000

#: Share of the remaining time that heads and tails may take, by estimate.
SHARE = 0.1

#: Share of the time for moves before the model, whose hint is their best schedule.
FIRST = 0.3

#: Time that CP-SAT may need to notice the end, as a share of the time for writing the model.
NOTICE = 0.25


#: Reasons for no schedule: proved impossible, or unknown.
NONE = "no schedule fits the memory and the links of the devices"
UNKNOWN = "found no schedule that fits the memory and the links of the devices, and no proof that there is none"


@solver(track="scheduling", name="cp-sat", source="disjunctive scheduling with CP-SAT of OR-tools", deterministic=False)
def cp_sat(instance: Instance, run: Run) -> None:
    """Choose devices and starting times in one CP-SAT model, starting from improved HEFT; proves bounds.

    For small graphs, the model contains memory, queues of tensors, and the rule that nothing waits without a reason;
    for others, memory only if no fitting schedule is known. Shared links are modelled as independent. The model is a
    relaxation, so its bounds hold for all schedules; every schedule found is simulated, and reported if it fits. The
    run ends with a schedule, a proof that none fits, or the message that neither was found.

    The first bound is that of paths, as in `critical-path`. Later ones come from CP-SAT, whose integer search is not
    checked; a certificate proves them again if all schedules are few, or by the formulas of `critical-path` if these
    suffice. Its claim that no schedule fits is not checked, but ignored if one is known.
    """
    terms = instance.edges * instance.devices**2 + instance.nodes * instance.devices
    constraints = (instance.edges + 3 * instance.nodes) * (instance.devices + 1)
    if terms > MOST:
        raise Declined(f"the model would have {terms} terms, more than {MOST}")
    if constraints > PACE * run.remaining():
        raise Declined(f"the model would have {constraints} constraints, more than there is time to write down")
    run.bound(instance.simple_bound())
    deadline, began = Deadline(run), time.process_time()
    best = begin(Simulator(instance), run)
    if not small(instance):
        improve(best, deadline.remaining() * FIRST)
    ends = heads_and_tails(instance, run.remaining() * SHARE)
    first = proved(ends.longest(), instance)
    run.bound(first)
    certify(run, instance, heads(instance, ends.longest()))
    bound = first if best.done else _solve(best, ends, deadline)
    if run.certify and bound > first:
        cases = heads(instance, bound, critical_cases(instance, ends, began))
        certify(run, instance, all_schedules(instance, bound) or cases)


def _solve(best: Best, ends: HeadsTails, deadline: Deadline) -> float:
    """Search until time is up, report schedules and bounds; Declined if no fitting schedule is found.

    Returns the greatest bound.

    Solutions of the model may not fit, as its links are independent, times rounded, and tensors released slightly
    early. They are excluded one by one until one fits or none is left.
    """
    instance, run, begun = best.simulator.instance, best.run, time.monotonic()
    longest = best.makespan if best.fits else instance.horizon() * (1 + 1e-9) or 1.0
    model, found = Model(instance, ends, clock(instance, longest)), list[tuple[Ints, Ints]]()
    if small(instance) or not best.fits:
        add_rules(model)  # for large graphs they help to find schedules, but slow down bounds
    if best.fits:
        model.hint(best.device, best.sequence)
    notice = NOTICE * (time.monotonic() - begun)

    bounds = [0.0]

    def prove(value: float) -> None:
        bounds.append(model.proved(value))
        run.bound(bounds[-1])

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
        response = answer(model.writer.proto, parameters, offer, prove)
        status, excluded = response.status, sum(model.exclude(*schedule) for schedule in found)
        if status != core().INFEASIBLE and response.inner_objective_lower_bound > 0:
            prove(response.inner_objective_lower_bound)
        if best.fits or status == core().INFEASIBLE or (status == core().OPTIMAL and not excluded):
            break
    if not best.fits:
        raise Declined(NONE if status == core().INFEASIBLE else UNKNOWN)
    return max(bounds)
