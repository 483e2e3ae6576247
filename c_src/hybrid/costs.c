#include "hybrid/costs.h"

/* Bytes in fixed point, rounded down, or up if the problem is strict; more than `most` if they exceed `limit` bytes. */
static int128 bytes_of(const struct shard_hybrid *problem, double value, double limit, long double scale,
                       int128 most) {
    if (value > limit)
        return most + 1;
    const int128 down = to_fixed(value, scale, most);
    return down + (problem->strict && (long double)down < (long double)value * scale);
}

/* (d - 1) / d of a number, rounded down. */
static int128 share_of_others(int128 number, int64_t d) {
    return number ? number - (number + d - 1) / d : 0;
}

/* Bytes per second of a replica of degree t in a stage of several machines: all replicas of a machine send at once. */
static long double speed_across(const struct shard_hybrid *problem, int64_t t) {
    const int64_t replicas = t < problem->machine ? problem->machine / t : 1;
    const long double all = (long double)problem->bandwidth * (long double)replicas;
    return problem->machine ? fminl(all, (long double)problem->inside) : all;
}

static void fill_configuration(struct costs *costs, int64_t c, int64_t t, long double scale,
                               long double bytes, enum measure measure) {
    const struct shard_hybrid *problem = costs->problem;
    costs->time[c] = to_fixed(problem->time[c], scale, MOST_TIME);
    const int128 room = costs->room;
    const double most = (double)problem->replicas[costs->counts - 1];
    costs->stashed[c] = bytes_of(problem, problem->stashed[c], problem->memory, bytes, room);
    const int128 fixed = bytes_of(problem, problem->fixed[c], problem->memory, bytes, room);
    const int128 shared =
        bytes_of(problem, problem->shared[c], problem->memory * most, bytes, (room + 1) << 32);
    /* Near ones synchronise within a machine. More than twice the limit per replica is too much for any two. */
    int128 synchronised[2], gathered[2];
    for (int near = 0; near < 2; near++) {
        const long double speed = near ? (long double)problem->inside : speed_across(problem, t);
        const long double whole = 4 * (long double)problem->parameters[c] / speed;
        gathered[near] = to_fixed((long double)problem->gathered[c] / speed, scale, MOST_TIME);
        synchronised[near] = measure == PER_SAMPLE
                                 ? to_fixed(whole / (long double)problem->batch, scale, 4 * costs->limit)
                                 : to_fixed(whole, scale, MOST_TIME);
    }
    for (int32_t i = 0; i < costs->counts; i++) {
        const int64_t d = problem->replicas[i], at = c * costs->counts + i;
        const bool near = problem->machine && d * t <= problem->machine;
        costs->extra[at] = share_of_others(gathered[near], d);
        if (measure == PER_SAMPLE)
            costs->extra[at] += (d - 1) * synchronised[near];
        else
            costs->synchronised[at] = share_of_others(synchronised[near], d);
        costs->kept[at] = fixed + (shared ? (shared + (problem->strict ? d - 1 : 0)) / d : 0);
    }
}

/* Put the configurations of a node that fit a device alone into its menus. */
static void fill_menus(struct costs *costs, int32_t v) {
    const struct shard_hybrid *problem = costs->problem;
    for (int32_t t = 0; t < problem->degrees; t++) {
        const int64_t at = (int64_t)v * problem->degrees + t;
        int64_t end = costs->menu_start[at];
        for (int64_t c = problem->menu_start[at]; c < problem->menu_start[at + 1]; c++)
            if (costs->stashed[c] + costs->kept[(c + 1) * costs->counts - 1] <= costs->room)
                costs->menu[end++] = (int32_t)c;
        costs->menu_start[at + 1] = end;
        const int32_t *menu = costs->menu + costs->menu_start[at];
        const int64_t count = end - costs->menu_start[at];
        costs->alike[at] = true;
        for (int64_t i = 1; i < count; i++)
            costs->alike[at] &= problem->parameters[menu[i]] <= problem->parameters[menu[0]] &&
                                problem->parameters[menu[i]] >= problem->parameters[menu[0]];
        for (int64_t e = problem->end_start[v]; e < problem->end_start[v + 1]; e++) {
            const int64_t j = e - problem->end_start[v];
            bool uniform = true;
            for (int64_t i = 1; i < count; i++)
                uniform &= costs->moved[problem->moved_start[menu[i]] + j] ==
                           costs->moved[problem->moved_start[menu[0]] + j];
            costs->uniform[e * problem->degrees + t] = uniform;
        }
    }
}

void costs_init(struct costs *costs, struct arena *arena, const struct shard_hybrid *problem, double limit,
                enum measure measure) {
    const int64_t n = problem->dag.nodes, menus = n * problem->degrees, count = problem->menu_start[menus];
    const int64_t ends = problem->end_start[n], nd = problem->replica_counts;
    *costs = (struct costs){.problem = problem, .counts = problem->replica_counts, .configurations = count};
    int64_t moved = 0;
    for (int64_t menu = 0; menu < menus; menu++)
        for (int64_t c = problem->menu_start[menu]; c < problem->menu_start[menu + 1]; c++) {
            const int64_t v = menu / problem->degrees;
            const int64_t end = problem->moved_start[c] + problem->end_start[v + 1] - problem->end_start[v];
            moved = end > moved ? end : moved;
        }
    ARENA_ARRAYS(arena, count, costs->time, costs->alone, costs->stashed, costs->menu);
    ARENA_ARRAYS(arena, count * nd, costs->extra, costs->kept);
    if (measure == ONE_PASS)
        ARENA_ARRAYS(arena, count * nd, costs->synchronised);
    ARENA_ARRAYS(arena, moved, costs->moved);
    ARENA_ARRAYS(arena, ends * problem->degrees, costs->uniform);
    ARENA_ARRAYS(arena, menus, costs->alike);
    ARENA_ZEROS(arena, menus + 1, costs->menu_start);
    if (arena->failed)
        return;
    int exponent;
    (void)frexp(problem->memory, &exponent);
    const long double scale = ldexpl(1, LIMIT_BITS) / (long double)limit,
                      bytes = ldexpl(1, LIMIT_BITS - exponent);
    costs->limit = (int128)1 << LIMIT_BITS;
    costs->room = (int128)((long double)problem->memory * bytes);
    for (int32_t v = 0; v < n; v++) {
        const int64_t first = problem->end_start[v], degree = problem->end_start[v + 1] - first;
        for (int32_t t = 0; t < problem->degrees; t++)
            for (int64_t c = problem->menu_start[v * (int64_t)problem->degrees + t];
                 c < problem->menu_start[v * (int64_t)problem->degrees + t + 1]; c++) {
                fill_configuration(costs, c, problem->degree[t], scale, bytes, measure);
                costs->alone[c] = costs->time[c];
                for (int64_t j = 0; j < degree; j++) {
                    const int64_t at = problem->moved_start[c] + j;
                    const long double seconds =
                        2 * (long double)problem->moved[at] / (long double)problem->bandwidth;
                    costs->moved[at] = to_fixed(seconds, scale, MOST_TIME);
                    costs->alone[c] += costs->moved[at];
                }
            }
        fill_menus(costs, v);
    }
}
