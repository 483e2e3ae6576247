/* Searching for placements whose greatest load is least: nodes go from device to device, and the times of
 * every device are kept as they go. */
#ifndef SHARD_PLACING_H
#define SHARD_PLACING_H

#include <stdint.h>

#include "common/status.h"
#include "placement/ideals/split_dp.h"

/* cffi: begin */

/* How to anneal a placement. The energy is the sum, over the devices, of what they take longer than a target.
 * The temperature falls geometrically. */
struct shard_cooling {
    int64_t moves;   /* moves to try */
    double hot;      /* temperature at the first move, in the unit of loads, > 0 */
    double cold;     /* temperature at the last one, > 0 */
    double margin;   /* the target is the least greatest load so far less this share, 0 to 1 */
    int32_t squared; /* not 0: the excesses are squared, and divided by the target */
};

/* How times become loads, and whether devices follow one another.
 *
 * A tensor that is on some devices is read, once each, by those that do not make it, and sent once by the one
 * that does; that takes accelerators its time, and `slowdown` times as long between accelerators of two
 * clusters. */
struct shard_rules {
    int32_t overlap;      /* 0: a load is all times; 1: transfers or computing; 2: those in, or those out */
    int32_t passes;       /* 1, or 2: forward and backward have loads of their own, whose maxima add up */
    int32_t cluster;      /* accelerators next to each other that are near; 0: all are */
    double slowdown;      /* at least 1 */
    const int32_t *maker; /* nets elements: the node that makes it; -1: transfers in are as those out */
    const int32_t *pass;  /* nets elements: 0 forward, 1 backward; all 0 with one pass */
    const double *backward_accelerator_time; /* nodes elements, with two passes: that part of the times */
    const double *backward_cpu_time;
    int32_t ordered;          /* not 0: edges lead to the same device or to one of a greater rank */
    const int64_t *out_start; /* if ordered, nodes + 1 elements: node v has edges to out[out_start[v] ..] */
    const int32_t *out;
    const int64_t *in_start; /* and from in[in_start[v] ..] */
    const int32_t *in;
};

/* Anneal a placement; calls one after another go on where the one before has ended. With no moves it is only
 * weighed.
 *
 *   devices  in
 *   rules    in
 *   cooling  in
 *   random   in and out, 1 element: state of the random numbers, any value to begin with
 *   rank     in and out, accelerators + cpus elements: a permutation that the placement keeps to, if ordered
 *   device   in and out, devices->nodes elements: an allowed placement, accelerators first, then CPUs
 *   best     in and out, devices->nodes elements: the best placement so far
 *   cost     in and out, 1 element: its cost, the greatest load, or the sum of those of both passes; infinite
 * if there is none yet load     out, (accelerators + cpus) * passes elements: of every device, by `device`
 *
 * Needs 8 bytes for each node of each net. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_place(const struct shard_devices *devices, const struct shard_rules *rules,
                const struct shard_cooling *cooling, uint64_t *random, int32_t *rank, int32_t *device,
                int32_t *best, double *cost, double *load);

/* Move, again and again, that node to that other accelerator which leaves the least greatest load, until none
 * makes it less.
 *
 *   devices  in
 *   rules    in,  one pass, neither clusters nor an order
 *   steps    in,  moves at most
 *   device   in and out, devices->nodes elements: an allowed placement; nodes on CPUs stay there
 *   cost     out, 1 element: its greatest load
 *   made     out, 1 element: moves made; fewer than `steps` only where none is left
 *
 * Each takes O(pins * accelerators). Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_descend(const struct shard_devices *devices, const struct shard_rules *rules, int64_t steps,
                  int32_t *device, double *cost, int64_t *made);
/* cffi: end */

#endif
