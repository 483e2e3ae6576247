/* Included by every kernel: its status codes, the C library, and the warnings that are errors. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Not on the command line, because that also compiles the wrapper that cffi generates. */
#pragma GCC diagnostic error "-Wpedantic"
#pragma GCC diagnostic error "-Wconversion"

/* cffi: begin */
enum shard_status {
    SHARD_OK = 0,
    SHARD_NO_MEMORY = 1,   /* a workspace could not be allocated; nothing was written */
    SHARD_CYCLE = 2,       /* the graph has a cycle */
    SHARD_BAD_ORDER = 3,   /* an order is no permutation of the nodes, or an edge runs against it */
    SHARD_NAN = 4,         /* a priority or threshold is not a number */
    SHARD_UNSUPPORTED = 5, /* a text has content that the reader does not support */
    SHARD_UNDECIDED = 6    /* a question took too much memory, so that a search may have missed something */
};
