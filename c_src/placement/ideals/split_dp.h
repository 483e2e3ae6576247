/* The best split of a graph over devices by dynamic programming over its ideals (Tarnawski et al., NeurIPS
 * 2020, Section 5.1.1), without a list of their pairs.
 *
 * A tensor is a net: the set of nodes that make or read it. An accelerator pays for a net once if it has some
 * of its nodes and not all. */
#ifndef SHARD_SPLIT_DP_H
#define SHARD_SPLIT_DP_H

#include <stdint.h>

#include "placement/ideals/ideals.h"

/* cffi: begin */

/* What nodes and nets cost on `accelerators` equal accelerators and `cpus` equal CPUs. */
struct shard_devices {
    int32_t nodes, nets, accelerators, cpus;
    double memory;                  /* of an accelerator */
    const double *accelerator_time; /* nodes elements, not negative; infinite where not supported */
    const double *cpu_time;         /* nodes elements, not negative */
    const double *size;             /* nodes elements, not negative: memory on an accelerator */
    const int64_t *net_start;       /* nodes + 1 elements: node v is on the nets net[net_start[v] ..] */
    const int32_t *net;             /* net_start[nodes] elements, none twice for a node */
    const double *transfer;         /* nets elements, not negative: what an accelerator pays */
    const int32_t *members;         /* nets elements: number of nodes */
};

/* Give a chain of ideals, each one's nodes without the next one's, to devices such that the greatest load is
 * least, if that is below `limit`.
 *
 *   devices     in
 *   ideals      in,  their number; it, link_start, link_node and link_ideal as from shard_list_ideals
 *   link_start  in
 *   link_node   in
 *   link_ideal  in
 *   limit       in,  may be infinite
 *   relief      in,  cpus + 1 elements: the accelerator time that so many CPUs can take over, at most,
 *                    with loads below the limit
 *   stop        in,  NULL, or not 0 once another thread wants an end
 *   best        scratch, ideals * (cpus + 1) * (accelerators + 1) elements
 *   cost        out, 1 element: the greatest load; infinite if none is below the limit, or if stopped
 *   device      out, nodes elements: accelerators 0 .. accelerators - 1, then CPUs; not written if cost is
 *                    infinite
 *   pairs       out, 1 element: pairs of ideals looked at
 *
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_split_dp(const struct shard_devices *devices, int64_t ideals, const int64_t *link_start,
                       const int32_t *link_node, const int32_t *link_ideal, double limit,
                       const double *relief, const int32_t *stop, double *best, double *cost, int32_t *device,
                       int64_t *pairs);
/* cffi: end */

#endif
