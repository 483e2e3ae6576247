/* Configurations chosen by a price of memory: whether a stage fits, decided in one pass, mostly. */
#pragma once

#include "hybrid/stage.h"

/* All arrays are owned by the arena; [c] is a configuration, [t] and d are indices of degrees. */
struct prices {
    double *stashed, *kept; /* [c], [c * counts + d]: those of the costs */
    double *price;          /* [t]: bytes to time; the one that decided last */
};

/* Allocate and fill; the arena fails if there is no memory. */
void prices_init(struct prices *prices, struct arena *arena, const struct costs *costs);

enum verdict { FITS, DOES_NOT_FIT, UNDECIDED };

/* Decide whether the stage can take at most `limit` with the degrees t and d (indices) and y microbatches in flight. For a
 * price, every choice that fits takes at least the sum of each node's least (time + price * bytes), less price * room.
 * The price is that of the last call with the same t, and then moves towards one that decides. */
enum verdict decide_by_price(struct prices *prices, const struct stage *stage, int32_t t, int32_t d,
                             int64_t y, int128 limit);
