/* Splits along chains of ideals with the loads of Tarnawski et al., NeurIPS 2020, Appendix H: communication
 * overlapped with computation (H.1), replicated stages (H.2), clusters of accelerators (H.3). */
#ifndef SHARD_STAGES_DP_H
#define SHARD_STAGES_DP_H

#include <stdint.h>

#include "placement/ideals/split_dp.h"

/* cffi: begin */
enum shard_overlap {
    SHARD_OVERLAP_NONE = 0, /* a load is the sum of work, nets in and nets out */
    SHARD_OVERLAP_HALF = 1, /* the larger of work and all nets */
    SHARD_OVERLAP_FULL = 2  /* the largest of the three */
};

/* What loads are made of. */
struct shard_stage_model {
    const int32_t *maker; /* nets elements: the node that makes the tensor; an accelerator without it takes
                             the net in, one with it sends it out */
    int32_t overlap;      /* of enum shard_overlap */
    double bandwidth;     /* size per time at which the devices of a stage synchronise; 0: a stage has one */
};

/* Equal clusters of as many accelerators as there are in `shard_devices`, and a smaller one. */
struct shard_clusters {
    int32_t equal;
    int32_t rest;    /* accelerators of the smaller one; 0: there is none */
    double slowdown; /* times that nets between clusters cost, at least 1 */
};

/* As shard_split_dp, but for
 *
 *   sharing   in
 *   share     scratch, like `best`; not used without bandwidth
 *   device    out, the first device of each node's stage
 *   replicas  out, nodes elements: devices of each node's stage */
int shard_stages_dp(const struct shard_devices *devices, const struct shard_stage_model *sharing,
                       int64_t ideals, const int64_t *link_start, const int32_t *link_node,
                       const int32_t *link_ideal, double limit, const double *relief, const int32_t *stop,
                       double *best, int32_t *share, double *cost, int32_t *device, int32_t *replicas,
                       int64_t *pairs);

/* Give each cluster a part of a chain of ideals, without a bandwidth: nets with nodes outside of the part are
 * paid at the slow rate, whether CPUs have these or other clusters. Parts between them may be all on CPUs.
 *
 * As above, but for
 *
 *   clusters    in
 *   outer       scratch, ideals * (cpus + 1) * (equal + 1) * 2 elements
 *   device      out, those of equal clusters, one cluster after the other, of the rest, and CPUs */
int shard_clusters_dp(const struct shard_devices *devices, const struct shard_stage_model *sharing,
                         const struct shard_clusters *clusters, int64_t ideals, const int64_t *link_start,
                         const int32_t *link_node, const int32_t *link_ideal, double limit,
                         const double *relief, const int32_t *stop, double *best, double *outer, double *cost,
                         int32_t *device, int64_t *pairs);
/* cffi: end */

#endif
