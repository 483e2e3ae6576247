/* Lower bounds on the starts of vertices, one after another, from the bounds of their ancestors. */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* The search for ancestors does not go beyond vertices with more inputs. */
enum { MOST_INPUTS = 64 };

/* Minimum and maximum of numbers that are not NaN: fmin and fmax, which handle NaN, are not inlined. */
static inline double lesser(double a, double b) {
    return a < b ? a : b;
}
static inline double greater(double a, double b) {
    return a > b ? a : b;
}

/* State of the bounds of one system. */
struct head_bounds;

/* Allocate from an arena; NULL, and the arena fails, if there is no memory.
 *
 *   ancestors    ancestors of a vertex that are considered together, >= 0
 *   most_inputs  greatest number of inputs of a vertex
 *   branches     most branches of the search, per vertex and device, >= 0; 0: no search
 *   start        in/out, nodes * devices elements of the caller, which must stay alive: known bounds, at
 *                least 0; head_bounds_raise raises those of one vertex */
struct head_bounds *head_bounds_new(struct arena *arena, const struct shard_system *system,
                                    const struct shard_units *units, int32_t ancestors, int64_t most_inputs,
                                    int32_t branches, double *start);

/* Set the order of head_bounds_raise, in, count elements: topological, vertices that start early first. */
void head_bounds_set_order(struct head_bounds *heads, const int32_t *order, int32_t count);

/* Raise the bounds of a vertex on all devices (head_bounds_raise), or keep the known ones (head_bounds_keep). One
 * of the two must have been called for all its ancestors. Devices with an infinite bound are ignored. */
void head_bounds_raise(struct head_bounds *heads, int32_t v);
void head_bounds_keep(struct head_bounds *heads, int32_t v);
