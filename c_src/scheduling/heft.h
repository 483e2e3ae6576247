/* HEFT: each vertex on the device that finishes it earliest, in a gap if there is one (Topcuoglu et al., TPDS
 * 2002). */
#ifndef SHARD_HEFT_H
#define SHARD_HEFT_H

#include <stdint.h>

#include "common/status.h"
#include "scheduling/simulate.h"

/* cffi: begin */

/* What vertices read, and what must share a device. */
struct shard_units {
    const int64_t *in_start;     /* nodes + 1 elements: inputs of v are in_start[v] .. in_start[v + 1] - 1 */
    const int32_t *in_tail;      /* their makers */
    const double *in_size;       /* and sizes */
    const int32_t *unit;         /* nodes elements: the group of each vertex */
    const int32_t *choice;       /* of each group, the set of devices that it may use; -1: any */
    const int64_t *choice_start; /* devices of set i are choice_start[i] .. choice_start[i + 1] - 1 */
    const int32_t *choice_device;
    const double *need;   /* of each group, the sizes of all that it reads */
    const double *memory; /* of each device: what it holds stays below this */
};

/* Assign vertices one after another; the first one of a group decides for all of it.
 *
 *   order   in,  nodes elements: a topological order
 *   device  in and out, nodes elements: -1 everywhere; then the device of each vertex
 *   start   out, nodes elements: when each vertex starts, if tensors never wait for links
 *
 * A group goes to a device whose memory is above all that is read there, if any is; else to one with most
 * room. O(edges * devices), and what looking for gaps takes. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_heft(const struct shard_system *system, const struct shard_units *units, const int32_t *order,
               int32_t *device, double *start);
/* cffi: end */

/* Vertices by group: unit u has those at start[u] .. start[u + 1] - 1 of `member`.
 *
 *   start   out, nodes + 2 elements, zeros to begin with
 *   member  out, nodes elements */
void list_members(int32_t nodes, const int32_t *unit, int64_t *start, int32_t *member);

#endif
