/* Schedules of least latency along chains of ideals (Tarnawski et al., NeurIPS 2020, Appendix A). */
#ifndef SHARD_SCHEDULE_DP_H
#define SHARD_SCHEDULE_DP_H

#include <stdint.h>

#include "placement/ideals/ideals.h"

/* cffi: begin */

/* What is scheduled: nodes one at a time on CPUs, of which there are always enough, and sets of nodes on
 * accelerators. A task begins when all nodes before its own have ended. A set moves in the tensors that it
 * reads, computes, moves out those that are read elsewhere, and all its nodes end then. */
struct shard_tasks {
    int32_t tensors, units;
    int32_t accelerators; /* each takes one set of whole units; -1: any number of sets, of any nodes */
    double memory;        /* that the units of the nodes of a set fit */
    const double *accelerator_time; /* nodes elements, not negative; infinite where not supported */
    const double *cpu_time;         /* nodes elements; infinite without CPUs */
    const double *tail;             /* nodes elements: from when a node begins to when all end, at least */
    const int32_t *unit;            /* nodes elements */
    const int32_t *members;         /* units elements: number of nodes */
    const double *size;             /* units elements */
    const double *transfer;         /* tensors elements: time to move each */
    const int64_t *made_start;      /* nodes + 1 elements: node v makes tensors made_start[v] .. */
    const int64_t *read_start;      /* nodes + 1 elements: node v reads tensors read[read_start[v]] .. */
    const int32_t *read;
    const int64_t
        *reader_start; /* tensors + 1 elements: nodes that read a tensor, not its maker, none twice */
    const int32_t *reader;
};

/* Find a schedule that ends before a limit and, of those, first.
 *
 *   order        in
 *   tasks        in
 *   ideals       in,  their number; it, link_start, link_node and link_ideal as from shard_list_ideals
 *   link_start   in
 *   link_node    in
 *   link_ideal   in
 *   limit        in
 *   most         in,  bytes for what is known of schedules
 *   stop         in,  NULL, or not 0 once another thread wants an end
 *   end          out, 1 element: when it ends; infinite if none ends before the limit, NaN if stopped
 *   set          out, nodes elements: number of the set of each node, -1 on CPUs; not written if end is not
 * finite
 *
 * Returns SHARD_OK, or SHARD_NO_MEMORY also if that is more than `most`. */
int shard_schedule_dp(const struct shard_dag *order, const struct shard_tasks *tasks, int64_t ideals,
                          const int64_t *link_start, const int32_t *link_node, const int32_t *link_ideal,
                          double limit, int64_t most, const int32_t *stop, double *end, int32_t *set);
/* cffi: end */

#endif
