/* What every kernel returns, and the warnings that every kernel is compiled with. */
#ifndef SHARD_STATUS_H
#define SHARD_STATUS_H

/* Here and not on the command line, because the wrapper that cffi generates is compiled with that too. */
#pragma GCC diagnostic error "-Wpedantic"
#pragma GCC diagnostic error "-Wconversion"

/* cffi: begin */
enum shard_status {
    SHARD_OK = 0,
    SHARD_NO_MEMORY = 1, /* a workspace could not be allocated; nothing was written */
    SHARD_CYCLE = 2,     /* the graph has a cycle */
    SHARD_BAD_ORDER = 3, /* an order is no permutation of the nodes, or an edge runs against it */
    SHARD_NAN = 4,       /* a priority or threshold is not a number */
    SHARD_ODD = 5        /* a text is not of the kind that a reader takes */
};
/* cffi: end */

#endif
