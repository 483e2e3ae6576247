/* Proofs that memory will be full for longer than the tolerance, whatever a schedule up to a moment goes on with. */
#pragma once

#include "scheduling/starts/partial.h"

/* A tensor that is on a device from a time until another at least. */
struct held {
    double from, until, size;
};

/* Workspace: what is known of a schedule at its next moment. Values are of this `round` if their mark is. */
struct outlook {
    int64_t round;
    double next, speed;
    double *start, *finish; /* by vertex: earliest start, and finish of those that run */
    double *arrival;        /* by edge, of what is under way */
    double *busy;           /* by device: until when it runs a vertex */
    int64_t *start_mark, *finish_mark, *arrival_mark;
    struct held *held;
};

/* Allocate from an arena, which fails if there is no memory. */
void outlook_allocate(struct outlook *outlook, struct arena *arena, const struct setting *setting);

/* True if some device, once all have decided what they start now, overfills its memory later: earliest starts of
 * readers bound from below how long tensors stay that are there or arrive for certain. */
bool overfills(struct outlook *outlook, const struct partial *partial, const struct setting *setting);

/* True if device d holds inputs, and no vertex that reads any can be the first of these to finish; for tensors that are
 * reserved until their reader has finished. */
bool is_stuck(const struct partial *partial, const struct setting *setting, int32_t d);
