/* Lower bounds on the time of what is left of a batch: a backward dynamic program over all stages in which only the
 * devices are relaxed.
 *
 * For an ideal, a sum s of the data-parallel degrees of its stages, and a price m per device, an entry is the least sum,
 * over stages of the nodes before the ideal, of their times of one microbatch plus m times their devices. So stages that
 * use at most k devices take at least the entry less m * k. More microbatches in flight never help, so s may be rounded
 * down: entries are for ranges of s that begin at its first few bits. */
#pragma once

#include "hybrid/choices/choice.h"
#include "hybrid/walk.h"

/* Ideals are filled from the last one on, as far as the search deserves it. Stage, chooser and suffixes are shared with
 * it, all arrays owned by the arena. */
struct completion_table {
    struct stage *stage;
    struct chooser *chooser;
    const struct suffixes *suffixes;
    double most_repeated; /* of each stage */
    int32_t bits;         /* ranges of s begin at multiples of a power of two, 2^bits to 2^(bits + 1) of it */
    int32_t ranges;       /* number of ranges */
    double *price;        /* COMPLETION_PRICES elements, ascending */
    double *least;        /* [(ideal * ranges + range) * COMPLETION_PRICES + p] */
    double safe;          /* one less the relative error of an entry */
    int32_t filled;       /* ideals from this one on are filled */
    int64_t effort;       /* so far, in comparisons of entries */
};

#define COMPLETION_PRICES 24

/* Allocate; nothing is filled. If the ideals are too many, they never are. `most_repeated` bounds the repeated time of
 * each stage in units of 2^-LIMIT_BITS limits. */
void completion_table_init(struct completion_table *table, struct arena *arena, struct stage *stage,
                           struct chooser *chooser, const struct suffixes *suffixes, double most_repeated);

/* Fill further ideals while all of them took less than `effort`, with the empty stage of a search that is not walking.
 * Returns false if asked to stop. */
bool completion_table_fill(struct completion_table *table, int64_t effort, const struct walk *search);

/* Least sum of the times of one microbatch of the stages of the nodes before an ideal, if those in it have a sum of s
 * data-parallel degrees, and leave so many devices; 0 if the ideal is not filled. */
double tabled_completion(const struct completion_table *table, int32_t ideal, int64_t s, int64_t devices);
