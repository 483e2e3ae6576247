/* Shared by the dynamic programs whose stages may overlap transfers with work, have replicas, or lie in clusters:
 * a table of rows, filled for the ideals between any two. */
#pragma once

#include "placement/ideals/stages_dp.h"
#include "placement/ideals/walk.h"

/* Cost of the nets of an accelerator. */
struct net_cost {
    double in, out;
    double committed_in, committed_out; /* lower bounds on both from now on */
    double drift;                       /* as in struct step, for both */
};

/* The caller owns `model` and `share`, and the arena of `split` all other arrays. */
struct stages {
    struct split split;
    const struct shard_stage_model *model;
    struct net_cost *net_costs;             /* nodes + 1 elements, of the steps */
    double *arriving;                       /* nets elements: cost to a device without the maker */
    double *leaving;                        /* the same to the device with the maker */
    uint8_t *allowed;                       /* nodes elements: those that walks may add */
    int32_t *share;                         /* like best: devices of the last stage; NULL if all have one */
    int32_t *accelerators_left, *cpus_left; /* split.length elements: at each entry */
};

/* First numbers of accelerators and of CPUs. */
struct numbers {
    int32_t accelerator, cpu;
};

/* Allocate the arrays, with the rates of one cluster and all nodes allowed; the arena fails if there is no memory. */
void stages_allocate(struct stages *stages);

/* Fill the rows from the base ideals `first` to `last` - 1; false if stopped. */
bool stages_find_rows(struct stages *stages, int32_t first, int32_t last);

/* Trace an entry of the row of `ideal` back to the ideal `first`, and number devices from `from` on. Only nodes of
 * `ideal` without `first` get final values; other nodes of `ideal` are overwritten.
 *
 *   device    out, nodes elements: the first device of each node's stage
 *   replicas  out, nodes elements: the number of its devices; NULL if not wanted */
void stages_trace(const struct stages *stages, int32_t first, int32_t ideal, size_t entry,
                  struct numbers from, int32_t *device, int32_t *replicas);
