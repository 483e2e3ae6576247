/* One thread runs kernels and another stops them: they must not race on the flag. */
#include <pthread.h>

#include "pipeline/anneal_partition.h"
#include "pipeline/kahn_slice.h"
#include "pipeline/slice.h"

static int32_t stop;

static void *set(void *begun) {
    while (!__atomic_load_n((int32_t *)begun, __ATOMIC_RELAXED)) {
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* A chain 0 -> 1 -> 2 -> 3 in two blocks. */
int main(void) {
    const int64_t out_start[] = {0, 1, 2, 3, 3}, in_start[] = {0, 0, 1, 2, 3};
    const int32_t head[] = {1, 2, 3}, tail[] = {0, 1, 2};
    const double column[] = {1.0, 2.0, 3.0, 4.0};
    const struct shard_pipeline problem = {4,      2,      out_start, head, in_start, tail,
                                           column, column, column,    1.0,  INFINITY, &stop};
    const struct shard_annealing centuries = {INT64_MAX, 1, 0.1, 0.01, 0.1, 0, 0.0};
    int32_t order[] = {0, 1, 2, 3}, cut[] = {0, 2, 4}, begun = 0;
    double cost = 0.0, decoded = 0.0;
    pthread_t thread;
    int status = pthread_create(&thread, NULL, set, &begun);
    for (int32_t i = 0; !status && isfinite(decoded); i++) { /* until no order is begun */
        status = shard_slice(&problem, order, INFINITY, &cost, cut);
        if (!status)
            status = shard_kahn_slice(&problem, 1, column, INFINITY, &decoded);
        __atomic_store_n(&begun, i > 100, __ATOMIC_RELAXED);
    }
    pthread_join(thread, NULL);
    stop = 0;
    begun = 1;
    if (!status)
        status = pthread_create(&thread, NULL, set, &begun);
    if (!status)
        status = shard_anneal_partition(&problem, &centuries, &stop, order, cut, &cost);
    pthread_join(thread, NULL);
    return status;
}
