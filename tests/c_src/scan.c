/* Scan and digest texts from standard input, and print the results.
 *
 * A text comes as two 32-bit numbers, its length and the length of the pieces to cut it into, and its bytes.
 * Each piece gets its own memory, so that a sanitizer notices reads beyond it. Link with -Wl,--wrap=realloc:
 * the program lets every allocation of a scan fail once. */
#include <stdio.h>

#include "reader/digest.h"
#include "reader/scan.h"

/* Allocations to grant before all fail; negative: grant all. */
static int granted = -1;

void *__real_realloc(void *array, size_t size);
void *__wrap_realloc(void *array, size_t size);

void *__wrap_realloc(void *array, size_t size) {
    if (granted == 0)
        return NULL;
    if (granted > 0)
        granted--;
    return __real_realloc(array, size);
}

static int scan(struct shard_scan *state, const uint8_t *text, uint32_t length, uint32_t cut) {
    int status = SHARD_OK;
    for (uint32_t at = 0; at < length && status == SHARD_OK; at += cut) {
        const uint32_t size = cut < length - at ? cut : length - at;
        uint8_t *piece = malloc(size);
        memcpy(piece, text + at, size);
        status = shard_scan_feed(state, piece, size);
        free(piece);
    }
    return status == SHARD_OK ? shard_scan_end(state) : status;
}

static void print_scan(const struct shard_scan *state) {
    for (int64_t i = 0; i < state->text_length; i++)
        printf("%02x", state->text[i]);
    for (int32_t i = 0; i < state->leaves; i++) {
        const struct shard_leaf *leaf = &state->leaf[i];
        printf(" %lld,%lld,%d", (long long)leaf->rows, (long long)leaf->values, (int)leaf->negative);
        for (int64_t row = 0; row <= leaf->rows; row++)
            printf(",%lld", (long long)state->start[leaf->start + row]);
        for (int64_t at = 0; at < leaf->values; at++)
            printf(",%lld", (long long)state->value[leaf->value + at]);
    }
}

/* Every allocation fails once; the scan then either reports that or does without. */
static bool survives_no_memory(const uint8_t *text, uint32_t length, uint32_t cut, int expected) {
    bool survived = true;
    for (int allocations = 0; allocations < 20; allocations++) {
        struct shard_scan state = {0};
        granted = allocations;
        const int status = scan(&state, text, length, cut);
        granted = -1;
        survived = survived && (status == expected || status == SHARD_NO_MEMORY);
        shard_scan_clear(&state);
    }
    return survived;
}

static void digest(const uint8_t *text, uint32_t length) {
    uint64_t key[SHARD_KEY], state[2] = {0, 0};
    for (int i = 0; i < SHARD_KEY; i++)
        key[i] = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1);
    for (uint32_t at = 0; at < length; at += SHARD_BLOCK) {
        const uint32_t size = SHARD_BLOCK < length - at ? SHARD_BLOCK : length - at;
        uint8_t *piece = malloc(size);
        memcpy(piece, text + at, size);
        shard_digest(key, piece, size, state);
        free(piece);
    }
    printf(" %016llx%016llx", (unsigned long long)state[0], (unsigned long long)state[1]);
}

int main(void) {
    uint32_t size[2]; /* length, cut */
    while (fread(size, sizeof size[0], 2, stdin) == 2) {
        struct shard_scan state = {0};
        uint8_t *text = malloc(size[0] + 1);
        if (fread(text, 1, size[0], stdin) != size[0])
            return 2;
        const int status = scan(&state, text, size[0], size[1]);
        printf("%d ", status);
        if (status == SHARD_OK)
            print_scan(&state);
        digest(text, size[0]);
        printf("\n");
        shard_scan_clear(&state);
        if (!survives_no_memory(text, size[0], size[1], status))
            return 3;
        free(text);
    }
    return 0;
}
