/* Searching for placements of any shape whose greatest load is least: nodes go from device to device, and the
 * load of every device is kept as they go. */
#ifndef SHARD_PLACING_H
#define SHARD_PLACING_H

#include <stdint.h>

#include "ideals_split.h"
#include "status.h"

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

/* Anneal a placement; calls one after another go on where the one before has ended.
 *
 *   devices  in
 *   cooling  in
 *   random   in and out, 1 element: state of the random numbers, any value to begin with
 *   device   in and out, devices->nodes elements: an allowed placement, accelerators first, then CPUs
 *   best     in and out, devices->nodes elements: the best placement so far
 *   cost     in and out, 1 element: its greatest load; infinite if there is none yet
 *   load     out, accelerators + cpus elements: of every device, by `device`
 *
 * Needs 8 bytes for each node of each net. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_place(const struct shard_devices *devices, const struct shard_cooling *cooling, uint64_t *random,
                int32_t *device, int32_t *best, double *cost, double *load);

/* Move, again and again, that node to that other accelerator which leaves the least greatest load, until none
 * makes it less.
 *
 *   devices  in
 *   steps    in,  moves at most
 *   device   in and out, devices->nodes elements: an allowed placement; nodes on CPUs stay there
 *   cost     out, 1 element: its greatest load
 *   made     out, 1 element: moves made; fewer than `steps` only where none is left
 *
 * Each takes O(pins * accelerators). Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_descend(const struct shard_devices *devices, int64_t steps, int32_t *device, double *cost,
                  int64_t *made);
/* cffi: end */

#endif
