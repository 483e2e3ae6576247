/* A block of variables gets new values, jointly optimal given all other variables, by bucket elimination.
 *
 * Members are eliminated as long as their tables are small; the other members keep their values. */
#pragma once

#include "common/arena.h"
#include "common/random.h"
#include "intraop/blocks/large_neighbourhood.h"

/* Most neighbours of a variable when it is eliminated: each at least doubles the table. */
#define MAX_CLIQUE 64

/* Role of a member of a block: it keeps its value, or is eliminated and gets a new one. */
enum role { FIXED, FREE };

/* A table restricted to its free variables; the others are fixed at their values. */
struct source {
    const double *cell;   /* of the network or of `message` */
    int64_t first, count; /* its free members: scope[first ..], with the stride of each */
    int64_t next;         /* next source consumed by the same elimination, or -1 */
};

/* Members are numbered by their place in the block. The first five fields are set by the caller, who owns `network`,
 * `price` and `value`; the arena owns all other arrays. size: the most members of a block. */
struct block {
    const struct shard_memory_network *network;
    const double *price; /* start[variables] elements: price of the memory of each value */
    struct random random;
    int64_t *value;      /* variables elements: the assignment */
    double width, cells; /* most cells of the table of one elimination, and of all of a block */

    int64_t count;   /* of members, at most size; set by whoever grows the block, like the next two arrays */
    int64_t *place;  /* variables elements: place in the block, or -1 */
    int64_t *member; /* size elements: the variable of each place */

    int64_t words;      /* per row of `adjacent` */
    uint64_t *adjacent; /* size * words elements, a bit matrix over members: they share a table */
    double *weight;     /* size elements: cells of the table if the member were eliminated next */
    int64_t *degree;    /* size elements: number of its neighbours */
    int64_t *undecided; /* size elements, undecided_count in use: members without a role yet */
    int64_t undecided_count;
    int8_t *role; /* size elements: of enum role */

    int64_t eliminated;   /* number of members */
    int64_t *order;       /* size elements, eliminated in use: places in the order of elimination */
    int64_t *rank;        /* size elements: inverse of `order` */
    int64_t *clique;      /* size * MAX_CLIQUE elements: for each elimination the places of its neighbours */
    int64_t *clique_size; /* size elements: number of them */

    int64_t *seen; /* tables elements: stamp of the last visit */
    int64_t stamp;
    struct source *source;   /* tables + size elements, sources in use */
    int64_t *scope, *stride; /* as many as scopes of tables and cliques; scope_size in use */
    int64_t sources, scope_size;
    int64_t *bucket;      /* size elements: first source of each member's elimination, or -1 */
    double *unary;        /* start[variables] elements: cost of each free member's values */
    int64_t *unary_start; /* size elements */
    double *table;        /* width elements */
    double *message;      /* cells / 2 + 1 elements, message_cells in use: tables left by eliminations */
    int64_t message_cells;

    int64_t *choice; /* size elements: the new value of each member */
};

/* Number of values of a variable. */
static inline int64_t size_of(const struct block *block, int64_t variable) {
    return block->network->start[variable + 1] - block->network->start[variable];
}

/* Allocate the arrays of blocks of up to `size` members, and empty the block; the arena fails if there is no memory. */
void block_allocate(struct arena *arena, struct block *block, int64_t size);

/* Find which members share a table; all are fixed at first. */
void block_link(struct block *block);

/* Decide which members are eliminated, in which order, and return the number of cells of their tables. */
double block_plan(struct block *block);

/* Choose the values of the free members; ties keep the present value. */
void block_solve(struct block *block);
