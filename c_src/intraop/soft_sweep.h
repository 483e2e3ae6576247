/* The sweep of soft_trws.c for LANES values at a time; it includes this once per width, so there is no guard. SIMD is
 * the attribute of the sweep. */

#define PASTE(name, lanes) name##_##lanes
#define EXPAND(name, lanes) PASTE(name, lanes)
#define OF_WIDTH(name) EXPAND(name, LANES)
#define FLOATS OF_WIDTH(floats)
#define INTS OF_WIDTH(ints)
#define WORDS OF_WIDTH(words)
#define HALF OF_WIDTH(half)
#define DOUBLES OF_WIDTH(doubles)

/* Vectors without alignment: LANES floats, their bits; half as many floats, and the same as doubles. */
typedef float FLOATS __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef int32_t INTS __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef uint32_t WORDS __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef float HALF __attribute__((vector_size(LANES / 2 * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef double DOUBLES
    __attribute__((vector_size(LANES / 2 * sizeof(double)), aligned(sizeof(double)), may_alias));

/* Per lane, the first if the mask, a comparison, is true; else the second. */
#define SELECT(mask, first, second) ((FLOATS)(((INTS)(first) & (mask)) | ((INTS)(second) & ~(mask))))
/* The smaller and the greater of two, and the number of each lane. */
#if LANES == 16
#define LESS(first, second) ((FLOATS)_mm512_min_ps((__m512)(first), (__m512)(second)))
#define MORE(first, second) ((FLOATS)_mm512_max_ps((__m512)(first), (__m512)(second)))
#define LANE ((INTS){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
#else
#define LESS(first, second) SELECT((first) < (second), first, second)
#define MORE(first, second) SELECT((first) > (second), first, second)
#define LANE ((INTS){0, 1, 2, 3, 4, 5, 6, 7})
#endif

/* LANES floats from here on. */
#define AT(pointer) (*(FLOATS *)(pointer))
#define READ(pointer) (*(const FLOATS *)(pointer))
/* Row number k of those listed; row k if there is no list. */
#define LISTED(k) (row ? row[k] : (k))

/* least[j] = -s log(sum over the listed rows i of exp((sent[i] - cell[i][j]) / s)), to about four digits of s; it
 * is relative to the plain minimum. Columns are padded to a multiple of LANES; the padding is computed from what
 * follows each row. */
SHARD_INLINE void OF_WIDTH(soft_least)(const float *cell, int64_t columns, const int64_t *row, int64_t rows,
                                       const float *sent, float softness, float *least) {
    const float bits_per = LOG2_E / softness;
    const FLOATS underflow = (FLOATS){0} - UNDERFLOW_BITS;
    for (int64_t j = 0; j < columns; j += LANES) {
        FLOATS low = READ(cell + LISTED(0) * columns + j) - sent[LISTED(0)], sum = {0};
        for (int64_t k = 1; k < rows; k++) {
            const FLOATS left = READ(cell + LISTED(k) * columns + j) - sent[LISTED(k)];
            low = LESS(left, low);
        }
        for (int64_t k = 0; k < rows; k++) { /* add 2^bits: that of the fraction, then of the integer part */
            FLOATS bits = (low - (READ(cell + LISTED(k) * columns + j) - sent[LISTED(k)])) * bits_per;
            bits = MORE(bits, underflow);
            const FLOATS whole = bits + ROUNDER, part = bits - (whole - ROUNDER);
            const FLOATS power =
                0.99992807F + part * (0.69326098F + part * (0.24261112F + part * 0.05517166F));
            sum += (FLOATS)((WORDS)power + ((WORDS)whole << 23));
        }
        const INTS exponent = ((INTS)sum >> 23) - 127;
        const FLOATS fraction = (FLOATS)((INTS)sum - (exponent << 23));
        const FLOATS t = (fraction - 1.0F) / (fraction + 1.0F), square = t * t;
        const FLOATS series = 1.0F + square * (0.33333333F + square * (0.2F + square * 0.14285714F));
        const FLOATS log = __builtin_convertvector(exponent, FLOATS) * LN_2 + 2.0F * t * series;
        AT(least + j) = low - softness * log;
    }
}

/* Subtract the least offer without a barrier from all offers; a value with a barrier gets no offer. */
SHARD_INLINE void OF_WIDTH(normalise)(float *offer, const float *barrier, int64_t size) {
    FLOATS base = READ(offer) + READ(barrier);
    for (int64_t i = LANES; i < size; i += LANES) {
        const FLOATS other = READ(offer + i) + READ(barrier + i);
        base = LESS(other, base);
    }
    for (int32_t half = LANES / 2; half; half /= 2) {
        const FLOATS other = __builtin_shuffle(base, LANE ^ half);
        base = LESS(other, base);
    }
    for (int64_t i = 0; i < size; i += LANES) {
        const FLOATS left = READ(offer + i) - base;
        AT(offer + i) = (FLOATS)((INTS)left & (READ(barrier + i) <= 0.0F));
    }
}

/* Collect the messages of an arc to a variable of `size` values in `mine`: each value's soft minimum over the
 * allowed values of the other end, minus the least of these minima. Without the subtraction, every sweep would add
 * a constant to the variables with most pairs. */
SHARD_INLINE void OF_WIDTH(collect)(struct pass *pass, const struct shard_soft_arc *arc, int64_t size,
                                    float *mine) {
    const float *cell = pass->soft->table + arc->table, *sent = pass->message + arc->sent;
    const float *range = pass->soft->range + 2 * arc->range;
    const int64_t *row = size < LISTED_FROM ? NULL : pass->row;
    const int64_t rows = row ? list_rows(range, arc->rows, sent, pass->softness, pass->row) : arc->rows;
    OF_WIDTH(soft_least)(cell, size, row, rows, sent, pass->softness, mine);
    OF_WIDTH(normalise)(mine, pass->barrier, size);
}

/* Add messages to costs. */
SHARD_INLINE void OF_WIDTH(add)(double *total, const float *message, int64_t width) {
    for (int64_t i = 0; i < width; i += LANES / 2)
        *(DOUBLES *)(total + i) += __builtin_convertvector(*(const HALF *)(message + i), DOUBLES);
}

/* Subtract each value's share of the cost from a message; forbidden values send -FORBIDDEN. */
SHARD_INLINE void OF_WIDTH(send)(const struct pass *pass, float *message, int64_t size) {
    for (int64_t i = 0; i < size; i += LANES) {
        const FLOATS left = READ(message + i) - READ(pass->share + i), barrier = READ(pass->barrier + i);
        AT(message + i) = SELECT(barrier > 0.0F, -barrier, left);
    }
}

/* Visit v on the way up or down. */
SHARD_INLINE void OF_WIDTH(visit)(struct pass *pass, int64_t v, bool up) {
    const struct shard_network *network = pass->network;
    const int64_t first = network->arc_start[v], end = network->arc_start[v + 1];
    const int64_t size = size_of(network, v), width = padded(size);
    float *mine = pass->message + pass->soft->slot[v];
    int64_t middle = first;
    while (middle < end && network->head[network->arc[middle]] == v)
        middle++;
    const int64_t ahead = up ? middle : first, ahead_end = up ? end : middle;
    begin(pass, v);
    for (int64_t a = ahead; a < ahead_end; a++)
        OF_WIDTH(add)(pass->total, mine + (a - first) * width, width);
    mark_forbidden(pass, width);
    for (int64_t k = 0; k < (up ? middle - first : end - middle); k++) {
        const int64_t a = up ? first + k : end - 1 - k;
        fetch(pass, up ? a + AHEAD : a - AHEAD);
        OF_WIDTH(collect)(pass, pass->soft->arc + a, size, mine + (a - first) * width);
        OF_WIDTH(add)(pass->total, mine + (a - first) * width, width);
    }
    divide(pass, v, middle - first > end - middle ? middle - first : end - middle);
    for (int64_t a = ahead; a < ahead_end; a++)
        OF_WIDTH(send)(pass, mine + (a - first) * width, size);
}

SIMD static void OF_WIDTH(sweep)(struct pass *pass, int64_t sweeps) {
    for (; sweeps > 0; sweeps--) {
        for (int64_t v = 0; v < pass->network->variables; v++)
            OF_WIDTH(visit)(pass, v, true);
        for (int64_t v = pass->network->variables - 1; v >= 0; v--)
            OF_WIDTH(visit)(pass, v, false);
    }
}

#undef PASTE
#undef EXPAND
#undef OF_WIDTH
#undef FLOATS
#undef INTS
#undef WORDS
#undef HALF
#undef DOUBLES
#undef SELECT
#undef LESS
#undef MORE
#undef LANE
#undef AT
#undef READ
#undef LISTED
#undef LANES
#undef SIMD
