/* Bounds on the start of one vertex after another, each from those before it. */
#ifndef SHARD_HEAD_BOUNDS_H
#define SHARD_HEAD_BOUNDS_H

#include <stdint.h>

#include "scheduling/simulate.h"
#include "scheduling/units.h"

/* Vertices with more inputs are not looked behind. */
enum { MOST_INPUTS = 64 };

/* Nothing here is NaN; fmin and fmax, which ask, are calls. */
static inline double lesser(double a, double b) {
    return a < b ? a : b;
}
static inline double greater(double a, double b) {
    return a > b ? a : b;
}

/* Memory for the vertices of one system. */
struct head_bounds;

/* Allocate from an arena; NULL, and the arena fails, if there is no memory.
 *
 *   window       vertices before one that are looked at together, >= 0
 *   most_inputs  of any vertex
 *   start        nodes * devices elements, kept by the caller: bounds that are known, 0 at least; each vertex
 *                gets its own in its turn */
struct head_bounds *head_bounds_new(struct arena *arena, const struct shard_system *system,
                                    const struct shard_units *units, int32_t window, int64_t most_inputs,
                                    double *start);

/* The order in which vertices are gone through, topological, those that start early first. */
void head_bounds_set_order(struct head_bounds *heads, const int32_t *order, int32_t count);

/* Raise the bounds of a vertex on all devices; those of all before it in the graph are known. */
void head_bounds_raise(struct head_bounds *heads, int32_t v);

#endif
