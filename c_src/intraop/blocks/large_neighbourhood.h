/* Large neighbourhood search in a network of cost functions whose values use memory over time.
 *
 * A block is a connected set of variables grown from a random one. Its variables that can be eliminated with
 * small tables (bucket elimination: Bertele and Brioschi 1972, Dechter 1999) get new values, jointly optimal
 * given all other variables, with memory at a price. Then each connected component of the change that lowers
 * the cost is applied if it fits in memory. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* Variables with a cost per value, tables over some of them, and memory in time steps.
 *
 *   start, cost       the values of variable v are the rows start[v] .. start[v + 1] - 1, with a cost each
 *   scope_start       table f is over the variables scope[scope_start[f] .. scope_start[f + 1] - 1], all
 *   scope             distinct
 *   cell_start, cell  costs of table f from cell[cell_start[f]] on, the last variable's value running fastest
 *   arc_start, arc    the tables of v are arc[arc_start[v] .. arc_start[v + 1] - 1]
 *   node_start        v has the nodes node_start[v] .. node_start[v + 1] - 1
 *   begin, end        node_start[variables] elements: a node is in memory in the steps begin .. end - 1
 *   usage_start       under value k, the j-th of the m nodes of v uses usage[usage_start[v] + k * m + j]
 *   room              steps elements: available memory
 *
 * Every `start` has an element more than there are variables or tables; its last element is the length of what
 * it divides. Variables and elements of `scope` number less than 2^31. The caller owns all arrays; the core
 * only reads them. */
struct shard_memory_network {
    int64_t variables, tables, steps;
    const int64_t *start;
    const double *cost;
    const int64_t *scope_start, *scope, *cell_start;
    const double *cell;
    const int64_t *arc_start, *arc, *node_start, *begin, *end;
    const int64_t *usage_start, *usage, *room;
};

/* Improve an assignment by blocks of up to `size` >= 1 variables.
 *
 *   price         in,     start[variables] elements: price of the memory of each value
 *   width, cells  in,     most cells of the table from which one variable is eliminated, and of all of a block
 *   work          in,     budget: about this many cells, plus the squares of the numbers of variables
 *   random        in/out, 1 element: state of the random numbers
 *   value, load   in/out, variables and steps elements: the assignment and the memory in use; a step above its
 *                         room is not made worse
 *   gain          out,    1 element: decrease of cost plus price
 * Allocates 8 bytes per cell of `width`, 4 per used cell of `cells` and 1 bit per `size` squared. Returns
 * SHARD_OK or SHARD_NO_MEMORY. */
int shard_large_neighbourhood(const struct shard_memory_network *network, const double *price, int64_t size,
                              double width, double cells, double work, uint64_t *random, int64_t *value,
                              int64_t *load, double *gain);
