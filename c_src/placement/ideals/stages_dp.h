/* Splits along chains of ideals with the loads of Tarnawski et al., NeurIPS 2020, Appendix H: transfers that
 * overlap with computation (H.1) and replicated stages (H.2). */
#pragma once

#include "placement/ideals/split_dp.h"

/* cffi: begin */
enum shard_overlap {
    SHARD_OVERLAP_NONE = 0, /* a load is the sum of work, nets in and nets out */
    SHARD_OVERLAP_HALF = 1, /* the larger of work and all nets */
    SHARD_OVERLAP_FULL = 2  /* the largest of the three */
};

/* The rules by which times make up the load of a stage. */
struct shard_stage_model {
    const int32_t *maker; /* nets elements: the node that makes the tensor; an accelerator without it takes
                             the net in, one with it sends it out */
    int32_t overlap;      /* of enum shard_overlap */
    double bandwidth;     /* size per time at which replicas synchronise; 0: one device per stage */
};

/* Like shard_split_dp, but `device`, out, has the first device of each node's stage and `replicas`, out,
 * nodes elements, the number of its devices. `share` is scratch as long as `best`, unused without
 * bandwidth. */
int shard_stages_dp(const struct shard_devices *devices, const struct shard_stage_model *model,
                    int64_t ideals, const int64_t *link_start, const int32_t *link_node,
                    const int32_t *link_ideal, double limit, const double *offload, const int32_t *stop,
                    double *best, int32_t *share, double *cost, int32_t *device, int32_t *replicas,
                    int64_t *pairs);
