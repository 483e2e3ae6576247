// A solver that speaks the contest's protocol and knows nothing of this project: `contest_solver FILE
// SECONDS`.
//
// It reads the contest's JSON, starts from the strategies that use the least memory, and improves one node at
// a time, from where it stands and after random kicks. Each better solution is a line of standard output.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Sum = __int128; // sums of entries of up to 10^18

// ---------------------------------------------------------------- JSON, as much of it as the contest's files
// use

struct Value {
    std::int64_t number = 0; // texts are read past
    std::vector<Value> items;
    std::unique_ptr<std::map<std::string, Value>> members;

    const Value &at(const std::string &key) const {
        return members->at(key);
    }
};

class Parser {
  public:
    explicit Parser(std::string content) : content_(std::move(content)) {}

    Value value() {
        Value result;
        switch (peek()) {
        case '{':
            result.members = std::make_unique<std::map<std::string, Value>>();
            each('}', [&] {
                std::string key = string();
                expect(':');
                result.members->emplace(std::move(key), value());
            });
            break;
        case '[':
            each(']', [&] { result.items.push_back(value()); });
            break;
        case '"':
            string();
            break;
        default:
            result.number = number();
        }
        return result;
    }

  private:
    char peek() {
        while (at_ < content_.size() && std::string(" \t\r\n").find(content_[at_]) != std::string::npos)
            ++at_;
        if (at_ == content_.size())
            throw std::runtime_error("the file ends too early");
        return content_[at_];
    }

    void expect(char wanted) {
        if (peek() != wanted)
            throw std::runtime_error(std::string("expected ") + wanted + " at byte " + std::to_string(at_));
        ++at_;
    }

    template <typename Read> void each(char end, Read read) {
        ++at_;
        if (peek() != end) {
            read();
            while (peek() != end) {
                expect(',');
                read();
            }
        }
        expect(end);
    }

    std::string string() {
        expect('"');
        std::string result;
        while (content_.at(at_) != '"') {
            if (content_[at_] == '\\')
                ++at_;
            result += content_.at(at_++);
        }
        ++at_;
        return result;
    }

    std::int64_t number() {
        char *end = nullptr;
        const std::int64_t result = std::strtoll(content_.c_str() + at_, &end, 10);
        if (end == content_.c_str() + at_)
            throw std::runtime_error("expected a number at byte " + std::to_string(at_));
        at_ = static_cast<std::size_t>(end - content_.c_str());
        return result;
    }

    std::string content_;
    std::size_t at_ = 0;
};

std::vector<std::int64_t> numbers(const Value &list) {
    std::vector<std::int64_t> result;
    for (const Value &item : list.items)
        result.push_back(item.number);
    return result;
}

// ---------------------------------------------------------------- the problem

struct Node {
    std::int64_t begin, end; // half-open
    std::vector<std::int64_t> cost, usage;
    std::vector<std::size_t> edges;
};

struct Edge {
    std::vector<std::int64_t> nodes;
    std::vector<std::int64_t> cost; // row-major, the last node's strategy running fastest
};

struct Problem {
    std::vector<Node> nodes;
    std::vector<Edge> edges;
    std::int64_t limit = 0;
    std::int64_t steps = 0;
};

Problem read(const char *path) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw std::runtime_error(std::string("cannot open ") + path);
    const Value content = Parser({std::istreambuf_iterator<char>(file), {}}).value();
    const Value &document = content.at("problem");
    Problem problem;
    const Value &nodes = document.at("nodes");
    for (std::size_t v = 0; v < nodes.at("intervals").items.size(); ++v) {
        const auto interval = numbers(nodes.at("intervals").items[v]);
        problem.nodes.push_back({interval.at(0),
                                 interval.at(1),
                                 numbers(nodes.at("costs").items.at(v)),
                                 numbers(nodes.at("usages").items.at(v)),
                                 {}});
        problem.steps = std::max(problem.steps, interval[1]);
    }
    const Value &edges = document.at("edges");
    for (std::size_t e = 0; e < edges.at("nodes").items.size(); ++e) {
        problem.edges.push_back(
            {numbers(edges.at("nodes").items[e]), numbers(edges.at("costs").items.at(e))});
        for (const std::int64_t v : problem.edges.back().nodes)
            problem.nodes.at(static_cast<std::size_t>(v)).edges.push_back(e);
    }
    problem.limit = document.at("usage_limit").number;
    return problem;
}

// ---------------------------------------------------------------- the search

class Search {
  public:
    explicit Search(const Problem &problem)
        : problem_(problem), used_(static_cast<std::size_t>(problem.steps), 0) {
        for (const Node &node : problem.nodes) {
            std::size_t least = 0;
            for (std::size_t s = 1; s < node.usage.size(); ++s)
                if (node.usage[s] < node.usage[least])
                    least = s;
            choice.push_back(least);
            use(node, node.usage[least]);
        }
    }

    // Cost of what touches a node.
    Sum local(std::size_t v) const {
        const Node &node = problem_.nodes[v];
        Sum cost = node.cost[choice[v]];
        for (const std::size_t e : node.edges)
            cost += of_edge(problem_.edges[e]);
        return cost;
    }

    Sum total() const {
        Sum cost = 0;
        for (std::size_t v = 0; v < choice.size(); ++v)
            cost += problem_.nodes[v].cost[choice[v]];
        for (const Edge &edge : problem_.edges)
            cost += of_edge(edge);
        return cost;
    }

    // Take another strategy; false, and nothing changes, where the memory does not allow it.
    bool choose(std::size_t v, std::size_t strategy) {
        const Node &node = problem_.nodes[v];
        const Sum more = Sum(node.usage[strategy]) - node.usage[choice[v]];
        for (std::int64_t t = node.begin; more > 0 && t < node.end; ++t)
            if (used_[static_cast<std::size_t>(t)] + more > problem_.limit)
                return false;
        use(node, more);
        choice[v] = strategy;
        return true;
    }

    // The best strategy of one node while all others keep theirs.
    bool improve(std::size_t v) {
        const std::size_t before = choice[v];
        std::size_t best = before;
        Sum least = local(v);
        for (std::size_t s = 0; s < problem_.nodes[v].cost.size(); ++s)
            if (choose(v, s) && local(v) < least) {
                least = local(v);
                best = s;
            }
        choose(v, before);
        return best != before && choose(v, best);
    }

    std::vector<std::size_t> choice;

  private:
    Sum of_edge(const Edge &edge) const {
        std::size_t at = 0;
        for (const std::int64_t v : edge.nodes)
            at = at * problem_.nodes[static_cast<std::size_t>(v)].cost.size() +
                 choice[static_cast<std::size_t>(v)];
        return edge.cost[at];
    }

    void use(const Node &node, Sum more) {
        for (std::int64_t t = node.begin; t < node.end; ++t)
            used_[static_cast<std::size_t>(t)] += more;
    }

    const Problem &problem_;
    std::vector<Sum> used_;
};

void print(const std::vector<std::size_t> &choice) {
    for (std::size_t v = 0; v < choice.size(); ++v)
        std::printf("%c%zu", v ? ',' : '[', choice[v]);
    std::puts("]");
    std::fflush(stdout);
}

void solve(const Problem &problem, Clock::time_point end) {
    std::mt19937_64 random(7);
    Search search(problem);
    print(search.choice);
    const std::size_t n = problem.nodes.size();
    std::vector<std::size_t> best = search.choice;
    Sum least = search.total();
    for (int idle = 0; idle < 300 && Clock::now() < end; ++idle) {
        for (bool moved = true; moved && Clock::now() < end;) {
            moved = false;
            for (std::size_t v = 0; v < n && Clock::now() < end; ++v)
                moved |= search.improve(v);
        }
        const Sum cost = search.total();
        if (cost < least) {
            least = cost;
            best = search.choice;
            std::printf("better, after %d rounds without\n", idle);
            print(best);
            idle = 0;
        }
        for (std::size_t kick = 0; kick < 1 + n / 20; ++kick) {
            const std::size_t v = random() % n;
            search.choose(v, random() % problem.nodes[v].cost.size());
        }
    }
}

} // namespace

int main(int count, char **words) {
    const auto start = Clock::now();
    if (count != 3) {
        std::fprintf(stderr, "usage: contest_solver FILE SECONDS\n");
        return 2;
    }
    const auto given = std::chrono::duration<double>(0.9 * std::atof(words[2]));
    const auto end = start + std::chrono::duration_cast<Clock::duration>(given);
    try {
        solve(read(words[1]), end);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "contest_solver: %s\n", error.what());
        return 1;
    }
    return 0;
}
