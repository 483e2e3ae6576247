// Local search for the contest's problem in C11, without libraries: `search FILE SECONDS`.
//
// Knows nothing of Shardmark but its protocol: every better solution and every bound is a line of JSON on
// standard output. Sums are 128 bits wide, because single costs reach 10^18.

#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef __int128 Sum;

static _Noreturn void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("search: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *grown(void *memory, size_t count, size_t size) {
    void *result = realloc(memory, (count ? count : 1) * size);
    if (result == NULL)
        fail("out of memory");
    return result;
}

// ---------------------------------------------------------------- lists of integers

typedef struct {
    int64_t *at;
    size_t count, room;
} Ints;

static void add(Ints *list, int64_t value) {
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 16;
        list->at = grown(list->at, list->room, sizeof *list->at);
    }
    list->at[list->count++] = value;
}

// Row i is value.at[start.at[i]] up to value.at[start.at[i + 1]].
typedef struct {
    Ints value, start;
} Rows;

static size_t rows(const Rows *lists) {
    return lists->start.count - 1;
}

static int64_t *row(const Rows *lists, size_t i) {
    return lists->value.at + lists->start.at[i];
}

static size_t length(const Rows *lists, size_t i) {
    return (size_t)(lists->start.at[i + 1] - lists->start.at[i]);
}

static int64_t least(const Rows *lists, size_t i) {
    const int64_t *values = row(lists, i);
    int64_t found = values[0];
    for (size_t k = 1; k < length(lists, i); k++)
        found = values[k] < found ? values[k] : found;
    return found;
}

// ---------------------------------------------------------------- JSON, as much of it as the contest's files use

static const char *text; // what is left of the file

static char peek(void) {
    while (*text == ' ' || *text == '\t' || *text == '\r' || *text == '\n')
        text++;
    return *text;
}

static void expect(char wanted) {
    if (peek() != wanted)
        fail("expected %c in the file, found '%.20s'", wanted, text);
    text++;
}

// True before each element of a list or object, until it ends; `first` says that its bracket was just read.
static int another(char end, int first) {
    if (peek() == end) {
        text++;
        return 0;
    }
    if (!first)
        expect(',');
    return 1;
}

static int64_t integer(void) {
    peek();
    char *end;
    const int64_t value = strtoll(text, &end, 10);
    if (end == text)
        fail("expected an integer in the file, found '%.20s'", text);
    text = end;
    return value;
}

static void string(char *into, size_t room) {
    expect('"');
    size_t count = 0;
    for (; *text && *text != '"'; text++) {
        if (*text == '\\' && text[1])
            text++;
        if (count + 1 < room)
            into[count++] = *text;
    }
    into[count] = '\0';
    expect('"');
}

static void key(char *into, size_t room) {
    string(into, room);
    expect(':');
}

static void skip(void) {
    char word[2];
    const char open = peek();
    if (open == '"') {
        string(word, sizeof word);
    } else if (open == '[' || open == '{') {
        text++;
        for (int first = 1; another(open == '[' ? ']' : '}', first); first = 0) {
            if (open == '{')
                key(word, sizeof word);
            skip();
        }
    } else {
        if (open == '\0')
            fail("the file ends too early");
        text += strcspn(text, ",]} \t\r\n");
    }
}

static Rows lists(void) {
    Rows result = {0};
    expect('[');
    for (int first = 1; another(']', first); first = 0) {
        add(&result.start, (int64_t)result.value.count);
        expect('[');
        for (int second = 1; another(']', second); second = 0)
            add(&result.value, integer());
    }
    add(&result.start, (int64_t)result.value.count);
    return result;
}

// ---------------------------------------------------------------- the problem

typedef struct {
    Rows interval, cost, usage; // one row per node
    Rows scope, table;          // one row per edge: its nodes, and a cost per combination of their strategies
    Rows stride;   // as scope: how far the next strategy of a node is in the edge's row of `table`
    Rows touching; // one row per node: its edges, each once
    int64_t limit; // of memory in every time step
} Problem;

static void read_part(Problem *problem, const char *part) {
    char name[16];
    expect('{');
    for (int first = 1; another('}', first); first = 0) {
        key(name, sizeof name);
        const int nodes = !strcmp(part, "nodes");
        if (nodes && !strcmp(name, "intervals"))
            problem->interval = lists();
        else if (nodes && !strcmp(name, "usages"))
            problem->usage = lists();
        else if (nodes && !strcmp(name, "costs"))
            problem->cost = lists();
        else if (!nodes && !strcmp(name, "nodes"))
            problem->scope = lists();
        else if (!nodes && !strcmp(name, "costs"))
            problem->table = lists();
        else
            skip();
    }
}

static void read_problem(Problem *problem) {
    char name[16];
    expect('{');
    for (int first = 1; another('}', first); first = 0) {
        key(name, sizeof name);
        if (!strcmp(name, "problem"))
            read_problem(problem);
        else if (!strcmp(name, "nodes") || !strcmp(name, "edges"))
            read_part(problem, name);
        else if (!strcmp(name, "usage_limit") && peek() != 'n')
            problem->limit = integer();
        else
            skip();
    }
}

static char *content_of(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail("cannot read %s", path);
    char *content = NULL;
    size_t count = 0, room = 1 << 16, got;
    do {
        content = grown(content, room *= 2, 1);
        got = fread(content + count, 1, room - count - 1, file);
        count += got;
    } while (got);
    fclose(file);
    content[count] = '\0';
    return content;
}

// Strides and the edges of each node. The last node's strategy runs fastest; a node may recur in an edge.
static void prepare(Problem *problem) {
    const size_t nodes = rows(&problem->cost), edges = rows(&problem->scope);
    Ints *of = grown(NULL, nodes, sizeof *of);
    memset(of, 0, nodes * sizeof *of);
    for (size_t e = 0; e < edges; e++) {
        const size_t count = length(&problem->scope, e), begin = problem->stride.value.count;
        const int64_t *scope = row(&problem->scope, e);
        add(&problem->stride.start, (int64_t)begin);
        for (size_t k = 0; k < count; k++)
            add(&problem->stride.value, 1);
        for (size_t k = count; k-- > 0;) {
            Ints *edges_of = &of[scope[k]];
            if (!edges_of->count || edges_of->at[edges_of->count - 1] != (int64_t)e)
                add(edges_of, (int64_t)e);
            if (k > 0)
                problem->stride.value.at[begin + k - 1] =
                    problem->stride.value.at[begin + k] * (int64_t)length(&problem->cost, (size_t)scope[k]);
        }
    }
    for (size_t v = 0; v < nodes; v++) {
        add(&problem->touching.start, (int64_t)problem->touching.value.count);
        for (size_t k = 0; k < of[v].count; k++)
            add(&problem->touching.value, of[v].at[k]);
        free(of[v].at);
    }
    add(&problem->touching.start, (int64_t)problem->touching.value.count);
    free(of);
}

static Problem read_file(const char *path) {
    Problem problem = {.limit = INT64_MAX};
    char *content = content_of(path);
    text = content;
    read_problem(&problem);
    free(content);
    if (!problem.interval.start.count || !problem.cost.start.count || !problem.usage.start.count ||
        !problem.scope.start.count || !problem.table.start.count)
        fail("%s is no problem of the contest", path);
    prepare(&problem);
    return problem;
}

// ---------------------------------------------------------------- the search

static Problem problem;
static int64_t *choice; // the strategy of each node
static Sum *used;       // memory in use in each time step
static Sum cost;        // of all nodes and edges
static Sum *prices;     // see `price`
static double end;

static Ints waiting; // nodes to look at again
static char *waits;  // for each node: it is in `waiting`
static Ints trail;   // nodes that changed and what they had before, in turn

static size_t place(size_t edge) {
    const int64_t *scope = row(&problem.scope, edge), *stride = row(&problem.stride, edge);
    int64_t at = 0;
    for (size_t k = 0; k < length(&problem.scope, edge); k++)
        at += choice[scope[k]] * stride[k];
    return (size_t)at;
}

// What a node and its edges cost, for each of its strategies.
static void price(size_t node) {
    const size_t count = length(&problem.cost, node);
    for (size_t s = 0; s < count; s++)
        prices[s] = row(&problem.cost, node)[s];
    for (size_t k = 0; k < length(&problem.touching, node); k++) {
        const size_t edge = (size_t)row(&problem.touching, node)[k];
        const int64_t *scope = row(&problem.scope, edge), *table = row(&problem.table, edge);
        int64_t stride = 0;
        for (size_t i = 0; i < length(&problem.scope, edge); i++)
            stride += scope[i] == (int64_t)node ? row(&problem.stride, edge)[i] : 0;
        const int64_t first = (int64_t)place(edge) - choice[node] * stride;
        for (size_t s = 0; s < count; s++)
            prices[s] += table[first + (int64_t)s * stride];
    }
}

static int64_t more_memory(size_t node, int64_t strategy) {
    return row(&problem.usage, node)[strategy] - row(&problem.usage, node)[choice[node]];
}

static int fits(size_t node, int64_t strategy) {
    const int64_t more = more_memory(node, strategy), *interval = row(&problem.interval, node);
    for (int64_t step = interval[0]; more > 0 && step < interval[1]; step++) // half-open
        if (used[step] + more > problem.limit)
            return 0;
    return 1;
}

static void choose(size_t node, int64_t strategy) {
    const int64_t more = more_memory(node, strategy), *interval = row(&problem.interval, node);
    for (int64_t step = interval[0]; more && step < interval[1]; step++)
        used[step] += more;
    price(node);
    cost += prices[strategy] - prices[choice[node]];
    choice[node] = strategy;
}

static void look_again(size_t node) {
    for (size_t k = 0; k < length(&problem.touching, node); k++) {
        const size_t edge = (size_t)row(&problem.touching, node)[k];
        for (size_t i = 0; i < length(&problem.scope, edge); i++) {
            const int64_t other = row(&problem.scope, edge)[i];
            if (other != (int64_t)node && !waits[other]) {
                waits[other] = 1;
                add(&waiting, other);
            }
        }
    }
}

static void change(size_t node, int64_t strategy) {
    add(&trail, (int64_t)node);
    add(&trail, choice[node]);
    choose(node, strategy);
    look_again(node);
}

// Improve nodes until none of those that wait can be.
static void descend(void) {
    while (waiting.count && now() < end) {
        const size_t node = (size_t)waiting.at[--waiting.count];
        waits[node] = 0;
        price(node);
        int64_t best = choice[node];
        for (int64_t s = 0; s < (int64_t)length(&problem.cost, node); s++)
            if (prices[s] < prices[best] && fits(node, s))
                best = s;
        if (best != choice[node])
            change(node, best);
    }
}

static uint64_t draw(uint64_t below) {
    static uint64_t state = 7;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static void print_sum(Sum value) { // costs are never negative
    if (value >= 10)
        print_sum(value / 10);
    putchar('0' + (int)(value % 10));
}

static void print_list(void) {
    putchar('[');
    for (size_t v = 0; v < rows(&problem.cost); v++)
        printf(v ? ", %lld" : "%lld", (long long)choice[v]);
    putchar(']');
}

static void report(void) {
    fputs("{\"solution\": ", stdout);
    print_list();
    fputs(", \"cost\": ", stdout);
    print_sum(cost);
    puts("}");
    fflush(stdout); // the referee stamps lines when they arrive
}

// Choose what uses the least memory: feasible if anything is. Return 0 if it is not.
static int start(void) {
    const size_t nodes = rows(&problem.cost);
    int64_t steps = 0;
    size_t most = 0;
    for (size_t v = 0; v < nodes; v++) {
        steps = row(&problem.interval, v)[1] > steps ? row(&problem.interval, v)[1] : steps;
        most = length(&problem.cost, v) > most ? length(&problem.cost, v) : most;
    }
    choice = grown(NULL, nodes, sizeof *choice);
    waits = grown(NULL, nodes, 1);
    prices = grown(NULL, most, sizeof *prices);
    used = grown(NULL, (size_t)steps, sizeof *used);
    memset(used, 0, (size_t)steps * sizeof *used);
    Sum bound = 0;
    for (size_t v = 0; v < nodes; v++) {
        choice[v] = 0;
        while (row(&problem.usage, v)[choice[v]] != least(&problem.usage, v))
            choice[v]++;
        for (int64_t step = row(&problem.interval, v)[0]; step < row(&problem.interval, v)[1]; step++)
            used[step] += row(&problem.usage, v)[choice[v]];
        cost += row(&problem.cost, v)[choice[v]];
        bound += least(&problem.cost, v);
        waits[v] = 1;
        add(&waiting, (int64_t)v);
    }
    for (size_t e = 0; e < rows(&problem.scope); e++) {
        cost += row(&problem.table, e)[place(e)];
        bound += least(&problem.table, e);
    }
    fputs("{\"bound\": ", stdout); // every node and every edge costs at least its least entry
    print_sum(bound);
    puts("}");
    fflush(stdout);
    for (int64_t step = 0; step < steps; step++)
        if (used[step] > problem.limit)
            return 0;
    return 1;
}

static void search(void) {
    const size_t nodes = rows(&problem.cost);
    descend();
    Sum reported = -1;
    for (double last = 0;;) {
        const double time = now();
        if (cost != reported && time > last + 0.1) { // a few per second: a large solution is a long line
            report();
            reported = cost;
            last = time;
        }
        if (time >= end || !nodes)
            return;
        const Sum before = cost;
        trail.count = 0;
        const size_t node = (size_t)draw(nodes); // change one node, and let its neighbours follow
        const int64_t strategy = (int64_t)draw(length(&problem.cost, node));
        if (strategy != choice[node] && fits(node, strategy)) {
            change(node, strategy);
            descend();
        }
        while (cost > before && trail.count) { // worse: back to where it was
            trail.count -= 2;
            choose((size_t)trail.at[trail.count], trail.at[trail.count + 1]);
        }
    }
}

int main(int count, char **words) {
    const double began = now();
    if (count != 3) {
        fputs("usage: search FILE SECONDS\n", stderr);
        return 2;
    }
    end = began + 0.9 * atof(words[2]);
    problem = read_file(words[1]);
    if (!start()) {
        puts("no choice of strategies fits into the memory"); // any other line is log
        return 0;
    }
    search();
    print_list(); // the contest's answer: the last line that is a list
    putchar('\n');
    return 0;
}
