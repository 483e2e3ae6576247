/* Search with large neighbourhoods in a network of cost functions whose values use memory over time.
 *
 * A block is a connected set of variables that grows from a random one. Those of its variables whose
 * elimination (Bertele and Brioschi 1972; Dechter, bucket elimination, 1999) needs small tables only are
 * chosen anew, all together and optimally beside the present values of all others; memory has a price there.
 * Of the changes, each connected part that pays is then made if memory suffices.
 */
#ifndef SHARD_BLOCKS_H
#define SHARD_BLOCKS_H

#include <stdint.h>

#include "common/status.h"

/* cffi: begin */

/* Variables with a cost for each value, tables over some of them, and memory in steps of time.
 *
 *   start        variables + 1 elements: the values of variable v are the rows start[v] .. start[v + 1] - 1
 *   cost         start[variables] elements
 *   scope_start  tables + 1 elements: table f is over the variables scope[scope_start[f] ..], all distinct
 *   scope        scope_start[tables] elements
 *   cell_start   tables + 1 elements: its costs, the last variable's value running fastest
 *   cell         cell_start[tables] elements
 *   arc_start    variables + 1 elements: the tables of v are arc[arc_start[v] .. arc_start[v + 1] - 1]
 *   arc          scope_start[tables] elements
 *   node_start   variables + 1 elements: v has the nodes node_start[v] .. node_start[v + 1] - 1
 *   begin, end   node_start[variables] elements: a node is in memory in the steps begin .. end - 1
 *   usage_start  variables + 1 elements: the j-th of the m nodes of v uses, under value k,
 *   usage        usage[usage_start[v] + k * m + j]
 *   room         steps elements: memory that there is
 *
 * Variables and elements of `scope` are less than 2^31. All arrays are read only. */
struct shard_field {
    int64_t variables;
    int64_t tables;
    int64_t steps;
    const int64_t *start;
    const double *cost;
    const int64_t *scope_start;
    const int64_t *scope;
    const int64_t *cell_start;
    const double *cell;
    const int64_t *arc_start;
    const int64_t *arc;
    const int64_t *node_start;
    const int64_t *begin;
    const int64_t *end;
    const int64_t *usage_start;
    const int64_t *usage;
    const int64_t *room;
};

/* Improve an assignment by blocks of up to `size` variables.
 *
 *   price     in,  start[variables] elements: what the memory of each value is worth
 *   size      in,  variables of a block, at most; at least 1
 *   width     in,  cells of a table that is eliminated, its variable's values included, at most
 *   cells     in,  cells of all tables of a block, at most
 *   work      in,  cells in all, about, and the squares of the numbers of variables
 *   random    in and out, 1 element: state of the random numbers
 *   value     in and out, variables elements
 *   load      in and out, steps elements: memory that is in use; a step above its room is not made worse
 *   gain      out, 1 element: by how much cost and price have become less
 *
 * Takes 8 bytes for each of `width`, 4 for each of `cells` that is used, and a bit for each of `size`
 * squared. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_blocks(const struct shard_field *field, const double *price, int64_t size, double width,
                 double cells, double work, uint64_t *random, int64_t *value, int64_t *load, double *gain);
/* cffi: end */

#endif
