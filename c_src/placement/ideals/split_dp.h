/* The best split of a graph over devices by dynamic programming over pairs of ideals, which are not stored
 * (Tarnawski et al., NeurIPS 2020, Section 5.1.1). A tensor is a net: the set of nodes that make or read it.
 * An accelerator pays once for each net of which it has some nodes, but not all. */
#pragma once

#include "common/ideals.h"

/* cffi: begin */

/* Equal accelerators and equal CPUs, and the costs of nodes and nets. Arrays are the caller's and only read. */
struct shard_devices {
    int32_t nodes, nets, accelerators, cpus;
    double memory;                  /* of an accelerator */
    const double *accelerator_time; /* nodes elements, not negative; infinite if not supported */
    const double *cpu_time;         /* nodes elements, not negative */
    const double *size;             /* nodes elements, not negative: memory on an accelerator */
    const int64_t *net_start;       /* nodes + 1 elements: node v is on the nets net[net_start[v] ..] */
    const int32_t *net;             /* net_start[nodes] elements, none twice for a node */
    const double *transfer;         /* nets elements, not negative: cost to an accelerator */
    const int32_t *members;         /* nets elements: number of nodes */
};

/* Find the chain of ideals with the least greatest load, if that is below `limit`, which may be infinite;
 * each difference of neighbours in the chain gets a device of its own.
 *
 *   ideals, link_*  in,  as shard_list_ideals gives them
 *   offload         in,  cpus + 1 elements: the most accelerator time that 0, 1, ... CPUs can take over with
 *                        loads below the limit
 *   stop            in,  1 element: not 0 once another thread asks to end; NULL: never
 *   best            scratch, ideals * (cpus + 1) * (accelerators + 1) elements
 *   cost            out, 1 element: the greatest load; infinite if none is below the limit, or if stopped
 *   device          out, nodes elements: accelerators first, then CPUs; not written if cost is infinite
 *   pairs           out, 1 element: pairs of ideals visited
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_split_dp(const struct shard_devices *devices, int64_t ideals, const int64_t *link_start,
                   const int32_t *link_node, const int32_t *link_ideal, double limit, const double *offload,
                   const int32_t *stop, double *best, double *cost, int32_t *device, int64_t *pairs);
