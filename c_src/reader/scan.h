/* Extract the lists of lists of integers from a JSON text, read in pieces, into flat arrays. */
#pragma once

#include "common/status.h"

/* cffi: begin */
enum shard_scan_limits { SHARD_LEAVES = 64 };

/* A list of lists of integers. The text of the scan has the word NaN in its place.
 *
 *   start     index of its row starts among all: rows + 1 of them, the first 0; row i has the integers
 *             start[i] .. start[i + 1] - 1 of this list
 *   value     index of its first integer among all
 *   negative  1 if any of them is negative */
struct shard_leaf {
    int64_t rows, start, values, value;
    int32_t negative;
};

/* A scan; zero-initialise it. Public fields:
 *
 *   leaf    `leaves` elements, in the order of the text
 *   start   `starts` elements, row starts of all lists in order
 *   value   `values` elements, all integers
 *   text    `text_length` elements: the rest of the text
 *
 * The scan owns the last three until it is cleared; every call may move them. */
struct shard_scan {
    struct shard_leaf leaf[SHARD_LEAVES];
    int64_t *start, *value;
    uint8_t *text;
    int64_t starts, values, text_length;
    int32_t leaves;

    int32_t state; /* the rest is private */
    int32_t minus;
    uint64_t magnitude;
    int64_t start_room, value_room, text_room;
};

/* Scan the next `length` bytes (in) of a text, which may be cut anywhere. Outside lists of lists, the scan
 * checks only that strings end and leaves the rest to a JSON parser. Inside, integers follow JSON's grammar
 * and fit into 64 bits.
 *
 * Returns SHARD_OK, SHARD_NO_MEMORY, or SHARD_UNSUPPORTED if a list of lists holds anything else, if there
 * are more than SHARD_LEAVES of them, and for the letters N and I outside of strings (NaN and Infinity are
 * not JSON). After the last two only shard_scan_clear may follow. */
int shard_scan_feed(struct shard_scan *scan, const uint8_t *bytes, int64_t length);

/* Finish a complete text and release unused capacity. Returns SHARD_OK, or SHARD_UNSUPPORTED if the text ends
 * within a string or a list of lists. */
int shard_scan_end(struct shard_scan *scan);

/* Free what the scan holds and make it all zero. */
void shard_scan_clear(struct shard_scan *scan);
