/* The model of the loads of devices. */
#pragma once

#include "placement/ideals/split_dp.h"

/* cffi: begin */

/* The rules by which times make up loads, and the order of devices if they have one.
 *
 * Each accelerator with readers of a tensor, but not its maker, receives it once; the maker's accelerator
 * sends it once. Either takes the accelerator the transfer time, `slowdown` times as long between two
 * clusters. All arrays are the caller's and are only read. */
struct shard_load_model {
    int32_t overlap;      /* 0: all times add up; 1: max(computing, transfers); 2: max(computing, in, out) */
    int32_t passes;       /* 1, or 2: forward and backward loads, whose maxima over the devices add up */
    int32_t cluster;      /* accelerators per cluster, numbered consecutively; 0: there is one cluster */
    double slowdown;      /* at least 1 */
    const int32_t *maker; /* nets elements: the node that makes it; -1: sending costs what receiving does */
    const int32_t *pass;  /* nets elements: 0 forward, 1 backward; all 0 with one pass */
    const double *backward_accelerator_time; /* nodes elements with two passes: part of accelerator_time */
    const double *backward_cpu_time;         /* likewise of cpu_time */
    int32_t ordered;          /* not 0: edges lead to the same device or to one of greater rank */
    const int64_t *out_start; /* if ordered, nodes + 1 elements: edges from v lead to out[out_start[v] ..] */
    const int32_t *out;       /* out_start[nodes] elements */
    const int64_t *in_start;  /* if ordered, nodes + 1 elements: edges to v come from in[in_start[v] ..] */
    const int32_t *in;        /* in_start[nodes] elements */
};
