/* Schedules of least latency along chains of ideals (Tarnawski et al., NeurIPS 2020, Appendix A). */
#pragma once

#include "common/ideals.h"

/* cffi: begin */

/* The tasks: single nodes on CPUs, of which there are always enough, and sets of nodes on accelerators. A
 * task begins when all predecessors of its nodes have ended. A set receives the tensors that it reads,
 * computes, and sends those read elsewhere; then all its nodes end. Arrays are the caller's, only read. */
struct shard_tasks {
    int32_t tensors, units;
    int32_t accelerators; /* each takes one set of whole units; -1: any number of sets, of any nodes */
    double memory;        /* for the units that a set has nodes of */
    const double *accelerator_time; /* nodes elements, not negative; infinite if not supported */
    const double *cpu_time;         /* nodes elements; infinite without CPUs */
    const double *tail;          /* nodes elements: least time from the start of a node to the end of all */
    const int32_t *unit;         /* nodes elements */
    const int32_t *members;      /* units elements: number of nodes */
    const double *size;          /* units elements */
    const double *transfer;      /* tensors elements: time to send or receive each */
    const int64_t *made_start;   /* nodes + 1 elements: node v makes the tensors made_start[v] .. */
    const int64_t *read_start;   /* nodes + 1 elements: node v reads the tensors read[read_start[v] ..] */
    const int32_t *read;         /* read_start[nodes] elements */
    const int64_t *reader_start; /* tensors + 1 elements: tensor t is read by reader[reader_start[t] ..] */
    const int32_t *reader;       /* reader_start[tensors] elements, not the maker, no node twice per tensor */
};

/* Find the schedule that ends first, if one ends before a limit.
 *
 *   ideals, link_*  in,  as shard_list_ideals gives them
 *   most            in,  most bytes for the table of partial schedules
 *   stop            in,  1 element: not 0 once another thread asks to end; NULL: never
 *   end             out, 1 element: its end; infinite if none ends before the limit, NaN if stopped
 *   set             out, nodes elements: number of the set of each node, -1 on CPUs; written if `end` is finite
 * Returns SHARD_OK or SHARD_NO_MEMORY, the latter also beyond `most` bytes. */
int shard_schedule_dp(const struct shard_dag *dag, const struct shard_tasks *tasks, int64_t ideals,
                      const int64_t *link_start, const int32_t *link_node, const int32_t *link_ideal,
                      double limit, int64_t most, const int32_t *stop, double *end, int32_t *set);
