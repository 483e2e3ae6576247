/* A state machine over bytes, with a fast path for rows of integers that lie within one piece. */
#include "reader/scan.h"

#define LOOKAHEAD 32 /* bytes that the fast path may read per integer */

enum state {
    TEXT, /* where every scan begins */
    STRING,
    ESCAPE,
    OPEN,  /* after the bracket of a list of unknown elements */
    ROW,   /* after the bracket of a row */
    ITEM,  /* an integer must follow */
    MINUS, /* digits must follow */
    ZERO,  /* the integer must end */
    DIGITS,
    BEHIND, /* after an integer and white space */
    ROW_END,
    NEXT_ROW /* a row must follow */
};

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Ensure capacity for `more` elements after the first `used`. */
static bool reserve(void **array, int64_t *room, int64_t used, int64_t more, size_t size) {
    if (used + more <= *room)
        return true;
    const int64_t wanted = used + used / 2 + more;
    void *moved = realloc(*array, (size_t)wanted * size);
    if (!moved)
        return false;
    *array = moved;
    *room = wanted;
    return true;
}

/* Ensure capacity for the output of `length` bytes: an integer or a row takes at least two, the list around
 * rows two more, and the word in its place has five letters. */
static bool make_room(struct shard_scan *scan, int64_t length) {
    void *start = scan->start, *value = scan->value, *text = scan->text;
    const bool made = reserve(&start, &scan->start_room, scan->starts, length / 2 + 2, sizeof *scan->start) &&
                      reserve(&value, &scan->value_room, scan->values, length / 2 + 2, sizeof *scan->value) &&
                      reserve(&text, &scan->text_room, scan->text_length, 2 * length + 8, sizeof *scan->text);
    scan->start = start;
    scan->value = value;
    scan->text = text;
    return made;
}

static struct shard_leaf *last(struct shard_scan *scan) {
    return &scan->leaf[scan->leaves - 1];
}

static bool begin_list(struct shard_scan *scan) {
    static const char word[5] = " NaN ";
    if (scan->leaves == SHARD_LEAVES)
        return false;
    scan->leaf[scan->leaves++] = (struct shard_leaf){.start = scan->starts, .value = scan->values};
    scan->start[scan->starts++] = 0;
    memcpy(scan->text + scan->text_length, word, sizeof word);
    scan->text_length += (int64_t)sizeof word;
    return true;
}

static void end_row(struct shard_scan *scan) {
    struct shard_leaf *leaf = last(scan);
    leaf->rows++;
    leaf->values = scan->values - leaf->value;
    scan->start[scan->starts++] = leaf->values;
}

/* Append a digit; false on overflow. */
static bool add_digit(struct shard_scan *scan, uint8_t c) {
    if (scan->magnitude > (uint64_t)INT64_MAX / 10)
        return false;
    scan->magnitude = scan->magnitude * 10 + (uint64_t)(c - '0');
    return scan->magnitude <= (uint64_t)INT64_MAX + (uint64_t)scan->minus;
}

static void end_integer(struct shard_scan *scan) {
    const uint64_t bits = scan->minus ? 0 - scan->magnitude : scan->magnitude;
    int64_t value;
    memcpy(&value, &bits, sizeof value);
    if (value < 0)
        last(scan)->negative = 1;
    scan->value[scan->values++] = value;
    scan->magnitude = 0;
    scan->minus = 0;
}

/* The state after a byte that ends or follows an integer; -1 if it is invalid. */
static int32_t behind(struct shard_scan *scan, uint8_t c) {
    if (c == ',')
        return ITEM;
    if (c == ']') {
        end_row(scan);
        return ROW_END;
    }
    return is_space(c) ? BEHIND : -1;
}

/* The state after a byte where an integer may begin; -1 if it is invalid. */
static int32_t first_of_integer(struct shard_scan *scan, uint8_t c) {
    if (is_space(c))
        return scan->state;
    if (c == '-' && scan->state != MINUS) {
        scan->minus = 1;
        return MINUS;
    }
    if (c < '0' || c > '9')
        return -1;
    scan->magnitude = (uint64_t)(c - '0');
    return c == '0' ? ZERO : DIGITS;
}

/* The state after one byte within a list of lists; -1 if it is not supported. */
static int32_t step(struct shard_scan *scan, uint8_t c) {
    switch (scan->state) {
    case ROW:
        if (c == ']') {
            end_row(scan);
            return ROW_END;
        }
        return first_of_integer(scan, c);
    case ITEM:
        return first_of_integer(scan, c);
    case MINUS:
        return is_space(c) ? -1 : first_of_integer(scan, c);
    case DIGITS:
        if (c >= '0' && c <= '9')
            return add_digit(scan, c) ? DIGITS : -1;
        end_integer(scan);
        return behind(scan, c);
    case ZERO:
        end_integer(scan);
        return behind(scan, c);
    case BEHIND:
        return behind(scan, c);
    case ROW_END:
        if (c == ']')
            return TEXT;
        return c == ',' ? NEXT_ROW : is_space(c) ? ROW_END : -1;
    default: /* NEXT_ROW */
        return c == '[' ? ROW : is_space(c) ? NEXT_ROW : -1;
    }
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first of eight digits is the lowest byte");

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static const uint64_t power[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* Parse up to eight leading digits; return their number. */
static int digits(const uint8_t *text, uint64_t *value) {
    uint64_t word;
    memcpy(&word, text, sizeof word);
    word ^= EACH('0');
    /* The high bit of each byte that is not a digit; bytes above the lowest such one may be wrong. */
    const uint64_t others = ((word + EACH(0x76)) | word) & EACH(0x80);
    const int count = others ? __builtin_ctzll(others) / 8 : 8;
    if (count == 0)
        return 0;
    word <<= 8 * (8 - count); /* shift the last digit to the highest byte, zeros below the first */
    word = (word * 10 + (word >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    word = (word * 100 + (word >> 16)) & UINT64_C(0x0000ffff0000ffff);
    *value = (word * 10000 + (word >> 32)) & UINT64_C(0xffffffff);
    return count;
}

/* Parse a leading integer below 2^63 and return its end; NULL if there is none or it has leading zeros. */
static const uint8_t *integer(const uint8_t *text, int64_t *value) {
    uint64_t part = 0;
    int count = digits(text, &part), all = count;
    uint64_t whole = part;
    while (count == 8 && all < 24) {
        part = 0;
        count = digits(text + all, &part);
        all += count;
        whole = whole * power[count] + part;
    }
    if (all == 0 || all > 19 || whole > INT64_MAX || (text[0] == '0' && all > 1))
        return NULL;
    *value = (int64_t)whole;
    return text + all;
}

/* Fast path over unsigned integers and row ends without white space; return where it ends. */
static const uint8_t *pass_rows(struct shard_scan *scan, const uint8_t *at, const uint8_t *end) {
    int64_t *values = scan->value + scan->values;
    while (end - at >= LOOKAHEAD) {
        const uint8_t *next = integer(at, values);
        if (!next || (*next != ',' && *next != ']'))
            break;
        values++;
        at = next + 1;
        scan->state = ITEM;
        if (*next == ',')
            continue;
        scan->values = values - scan->value;
        end_row(scan);
        scan->state = ROW_END;
        if (at[0] != ',' || at[1] != '[')
            break;
        at += 2;
        scan->state = ROW;
    }
    scan->values = values - scan->value;
    return at;
}

/* Copy bytes until a string or a list begins or ends; the state becomes -1 for a word that is not JSON. */
static const uint8_t *copy(struct shard_scan *scan, const uint8_t *at, const uint8_t *end) {
    const uint8_t *from = at;
    int32_t state = scan->state;
    while (at < end && state == scan->state) {
        const uint8_t c = *at++;
        if (state == STRING)
            state = c == '"' ? TEXT : c == '\\' ? ESCAPE : STRING;
        else if (state == ESCAPE)
            state = STRING;
        else
            state = c == '"' ? STRING : c == '[' ? OPEN : c == 'N' || c == 'I' ? -1 : TEXT;
    }
    const int64_t length = at - from - (state == OPEN); /* the bracket may open a list of lists */
    memcpy(scan->text + scan->text_length, from, (size_t)length);
    scan->text_length += length;
    scan->state = state;
    return at;
}

/* Decide what a bracket opens; false if there are too many lists of lists. */
static bool open(struct shard_scan *scan, const uint8_t **at) {
    if (is_space(**at)) {
        ++*at;
        return true;
    }
    if (**at != '[') { /* a list of something else: copy its bracket now */
        scan->text[scan->text_length++] = '[';
        scan->state = TEXT;
        return true;
    }
    ++*at;
    scan->state = ROW;
    return begin_list(scan);
}

int shard_scan_feed(struct shard_scan *scan, const uint8_t *bytes, int64_t length) {
    const uint8_t *at = bytes, *end = bytes + length;
    if (!make_room(scan, length))
        return SHARD_NO_MEMORY;
    while (at < end) {
        if (scan->state < OPEN) {
            at = copy(scan, at, end);
        } else if (scan->state == OPEN) {
            if (!open(scan, &at))
                return SHARD_UNSUPPORTED;
        } else {
            if (scan->state == ROW || scan->state == ITEM)
                at = pass_rows(scan, at, end);
            scan->state = step(scan, *at++);
        }
        if (scan->state < 0)
            return SHARD_UNSUPPORTED;
    }
    return SHARD_OK;
}

static void trim(void **array, int64_t *room, int64_t used, size_t size) {
    void *moved = used < *room ? realloc(*array, (size_t)used * size + 1) : NULL;
    if (moved) {
        *array = moved;
        *room = used;
    }
}

int shard_scan_end(struct shard_scan *scan) {
    void *start = scan->start, *value = scan->value, *text = scan->text;
    if (scan->state != TEXT)
        return SHARD_UNSUPPORTED;
    trim(&start, &scan->start_room, scan->starts, sizeof *scan->start);
    trim(&value, &scan->value_room, scan->values, sizeof *scan->value);
    trim(&text, &scan->text_room, scan->text_length, sizeof *scan->text);
    scan->start = start;
    scan->value = value;
    scan->text = text;
    return SHARD_OK;
}

void shard_scan_clear(struct shard_scan *scan) {
    free(scan->start);
    free(scan->value);
    free(scan->text);
    memset(scan, 0, sizeof *scan);
}
