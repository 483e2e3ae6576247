/* Splits along chains of ideals over clusters of accelerators with slow links between them: Tarnawski et al.,
 * NeurIPS 2020, Appendix H.3. */
#pragma once

#include "placement/ideals/stages_dp.h"

/* cffi: begin */
/* Equal clusters, each with the accelerators of `shard_devices`, and a smaller one. */
struct shard_clusters {
    int32_t equal;
    int32_t rest;    /* accelerators of the smaller one; 0: there is none */
    double slowdown; /* factor for the cost of nets between clusters, at least 1 */
};

/* Like shard_stages_dp without replicas, but every cluster takes a part of the chain of ideals. Nets that leave
 * the part are paid at the slow rate, to CPUs and to other clusters alike. Parts between those of two clusters may
 * be on CPUs only.
 *
 *   outer   scratch, ideals * (cpus + 1) * (equal + 1) * 2 elements
 *   device  out,     nodes elements: the accelerators of the equal clusters come first, then those of the
 *                    smaller one, then the CPUs */
int shard_clusters_dp(const struct shard_devices *devices, const struct shard_stage_model *model,
                      const struct shard_clusters *clusters, int64_t ideals, const int64_t *link_start,
                      const int32_t *link_node, const int32_t *link_ideal, double limit,
                      const double *offload, const int32_t *stop, double *best, double *outer, double *cost,
                      int32_t *device, int64_t *pairs);
