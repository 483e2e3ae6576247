/* The hybrid-parallel training problem: stages with data- and tensor-parallel degrees and a configuration per node
 * (Tarnawski, Narayanan, Phanishayee, NeurIPS 2021). */
#pragma once

#include "common/ideals.h"

/* cffi: begin */

/* Nodes are numbered from the end of the pipeline: the edges of `dag` are those of the model, reversed, and lead to
 * greater numbers. Its ideals are the sets of nodes of the last stages. A configuration of a node belongs to one
 * tensor-parallel degree. All numbers are finite and not negative. Arrays are the caller's and only read. */
struct shard_hybrid {
    struct shard_dag dag;
    int32_t degrees;         /* number of tensor-parallel degrees, at least 1 */
    const int64_t *degree;   /* degrees elements, ascending */
    int32_t replica_counts;  /* number of data-parallel degrees, at least 1 */
    const int64_t *replicas; /* replica_counts elements, ascending, below 2^31 */
    int64_t devices;         /* below 2^31 */
    int64_t batch;           /* microbatches, below 2^31 */
    int64_t machine;         /* devices per machine; 0: no machines */
    double memory;           /* bytes per device */
    double bandwidth;        /* bytes per second, positive */
    double inside;           /* the same within a machine; the most for stages of several machines */
    int32_t strict;          /* not 0: round bytes up, not down */
    const int32_t *rank;     /* nodes elements: order in which the published program lists them */
    const int64_t
        *menu_start;    /* nodes * degrees + 1 elements: node v has with degree index t the configurations
                                  menu_start[v * degrees + t] .. */
    const double *time; /* configurations elements: seconds per microbatch */
    const double *parameters; /* the same: bytes that replicas synchronise */
    const double *stashed;    /* the same: bytes per microbatch in flight */
    const double *fixed;      /* the same: other bytes */
    const double *shared;     /* the same: bytes that replicas divide among them */
    const double *gathered;   /* the same: bytes that replicas gather per microbatch */
    const int64_t *end_start; /* nodes + 1 elements: node v has the edge ends end_start[v] .. */
    const int32_t *neighbour; /* ends elements: node at the other end */
    const int64_t *other_end; /* ends elements: the edge's end at that node */
    const int64_t
        *moved_start; /* configurations elements: the bytes of its node's ends are moved[moved_start[c] ..] */
    const double *moved; /* bytes through each end if the edge leaves the stage, one way */
};
