/* Placements for latency: subgraphs of accelerators, and nodes on a pool of CPUs. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* The problem. An accelerator runs a subgraph as a whole: it receives the nets that the nodes read from
 * elsewhere, computes, and sends the nets that are read elsewhere; then all its nodes end. Other nodes are in
 * the pool of CPUs, where each begins when all its predecessors have ended. The nodes of a unit share a
 * device. All arrays are the caller's and are only read. */
struct shard_latency_problem {
    int32_t nodes, units, nets, accelerators;
    int32_t subgraphs;       /* at most, at a time: 2 * accelerators, or nodes + 1 if `unlimited` */
    int32_t unlimited;       /* not 0: an accelerator has any number of subgraphs. 0: one, or one per pass;
                                2a and 2a + 1 are those of accelerator a, the latter for backward nodes only */
    double memory;           /* of an accelerator */
    double pool_penalty;     /* added to the latency per node in the pool; 0 if there are CPUs */
    const int32_t *unit;     /* nodes elements */
    const int32_t *backward; /* nodes elements: 1 in the backward pass, else 0 */
    const double
        *accelerator_time;     /* nodes elements; infinite for the nodes of units that must be in the pool */
    const double *cpu_time;    /* nodes elements */
    const double *tail;        /* nodes elements: least time from the start of a node to the end of all */
    const int64_t *in_start;   /* nodes + 1 elements: predecessors of v are in[in_start[v] ..] */
    const int32_t *in;         /* in_start[nodes] elements */
    const int64_t *out_start;  /* nodes + 1 elements: successors of v are out[out_start[v] ..] */
    const int32_t *out;        /* out_start[nodes] elements */
    const int64_t *made_start; /* nodes + 1 elements: v makes the nets made_start[v] .. */
    const double *transfer;    /* nets elements: time to send or receive each */
    const int64_t *reader_start; /* nets + 1 elements: net i is read by reader[reader_start[i] ..] */
    const int32_t *reader;       /* reader_start[nets] elements: nodes */
    const int64_t *read_start;   /* nodes + 1 elements: v reads the nets read[read_start[v] ..] */
    const int32_t *read;         /* read_start[nodes] elements: nets */
    const double *size;          /* units elements */
    const int64_t *unit_start;   /* units + 1 elements: unit u has the nodes member[unit_start[u] ..] */
    const int32_t *member;       /* nodes elements */
};

/* A placement. All arrays are the caller's. */
struct shard_latency_placement {
    int32_t *subgraph; /* nodes elements: the subgraph of each node, -1 in the pool */
    int32_t *owner;    /* subgraphs elements: the accelerator of each that has nodes */
    double *delay;   /* subgraphs elements: of those that wait for an accelerator, the one with the least sum
                          of ready time and delay runs first */
    int32_t *merged; /* accelerators elements: not 0: subgraph 2a has the nodes of both passes; 0 if
                          `unlimited` */
};
