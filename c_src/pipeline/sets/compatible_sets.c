/* Pairs of sets are tested by their bits; a set without loss costs its nodes nothing, so those come first. */
#include "pipeline/sets/compatible_sets.h"

#include <math.h>

#include "common/arena.h"
#include "common/stop.h"

/* A loss must exceed the slack by this share of the slack, or of the heaviest set if that weighs more: far above the
 * rounding of a sum of doubles over all nodes. */
#define ROUNDING 1e-9

struct sets {
    int32_t nodes, words;
    int64_t count;
    const uint64_t *member;
    uint64_t *after; /* count * words elements: the nodes of each set, and what comes after them */
    const int64_t *loss;
    int64_t heaviest;
    const int64_t *weight;
    const int8_t *keep;
    double *share; /* nodes elements: least loss per weight of a set that holds the node, infinite at first */
    double *least; /* nodes elements: least loss of such a set */
};

void shard_weigh_sets(int32_t nodes, int64_t sets, const uint64_t *member, const int64_t *weight,
                      int64_t *weighs) {
    const int32_t words = (nodes + 63) / 64;
    for (int64_t i = 0; i < sets; i++) {
        weighs[i] = 0;
        for (int32_t word = 0; word < words; word++)
            for (uint64_t rest = member[i * words + word]; rest; rest &= rest - 1)
                weighs[i] += weight[64 * word + __builtin_ctzll(rest)];
    }
}

/* Fill in what comes after each set. */
static void reach(struct sets *sets, const uint64_t *below) {
    const int32_t words = sets->words;
    for (int64_t i = 0; i < sets->count; i++)
        for (int32_t word = 0; word < words; word++)
            for (uint64_t rest = sets->member[i * words + word]; rest; rest &= rest - 1) {
                const uint64_t *row = below + (int64_t)(64 * word + __builtin_ctzll(rest)) * words;
                for (int32_t other = 0; other < words; other++)
                    sets->after[i * words + other] |= row[other];
            }
}

/* True if two sets can be different stages of the same partition. */
static bool are_compatible(const struct sets *sets, int64_t i, int64_t j) {
    const uint64_t *a = sets->member + i * sets->words, *b = sets->member + j * sets->words;
    const uint64_t *after_a = sets->after + i * sets->words, *after_b = sets->after + j * sets->words;
    uint64_t common = 0, forth = 0, back = 0;
    for (int32_t word = 0; word < sets->words; word++) {
        common |= a[word] & b[word];
        forth |= after_a[word] & b[word];
        back |= after_b[word] & a[word];
    }
    return common == 0 && (forth == 0 || back == 0);
}

/* Note what the nodes of a set cost if it is a stage. */
static void offer(struct sets *sets, int64_t j) {
    const double loss = (double)sets->loss[j], weighs = (double)(sets->heaviest - sets->loss[j]);
    const double share = loss > 0 ? loss / fmax(weighs, 1.0) : 0.0;
    for (int32_t word = 0; word < sets->words; word++)
        for (uint64_t rest = sets->member[j * sets->words + word]; rest; rest &= rest - 1) {
            const int32_t v = 64 * word + __builtin_ctzll(rest);
            sets->share[v] = fmin(sets->share[v], share);
            sets->least[v] = fmin(sets->least[v], loss);
        }
}

/* A lower bound on the loss of a partition that has set i; infinite if there is none within the slack. */
static double least_loss_with(struct sets *sets, int64_t i, int64_t slack) {
    const int64_t left = slack - sets->loss[i];
    for (int32_t v = 0; v < sets->nodes; v++)
        sets->share[v] = sets->least[v] = INFINITY;
    for (int64_t j = 0; j < sets->count && sets->loss[j] <= left; j++)
        if (sets->keep[j] && are_compatible(sets, i, j))
            offer(sets, j);
    double sum = 0.0, most = 0.0;
    for (int32_t v = 0; v < sets->nodes; v++) {
        if ((sets->member[i * sets->words + (v >> 6)] >> (v & 63)) & 1)
            continue;
        if (isinf(sets->least[v]))
            return INFINITY;
        sum += sets->share[v] * (double)sets->weight[v];
        most = fmax(most, sets->least[v]);
    }
    return (double)sets->loss[i] + fmax(sum, most);
}

int shard_compatible_sets(int32_t nodes, int64_t sets, const uint64_t *member, const int64_t *loss,
                          int64_t heaviest, const int64_t *weight, const uint64_t *below, int64_t slack,
                          double seconds, int8_t *keep) {
    const double deadline = monotonic_seconds() + seconds;
    const double most = (double)slack + ROUNDING * (double)(slack > heaviest ? slack : heaviest);
    struct arena arena = {0};
    struct sets all = {nodes, (nodes + 63) / 64, sets, member, NULL, loss, heaviest, weight, keep, NULL,
                       NULL};
    ARENA_ZEROS(&arena, sets * all.words, all.after);
    ARENA_ARRAYS(&arena, nodes, all.share, all.least);
    if (arena.failed) {
        arena_free(&arena);
        return SHARD_NO_MEMORY;
    }
    reach(&all, below);
    for (int64_t i = sets; i-- > 0 && monotonic_seconds() < deadline;)
        if (keep[i] && least_loss_with(&all, i, slack) > most)
            keep[i] = 0;
    arena_free(&arena);
    return SHARD_OK;
}
