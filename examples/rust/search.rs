//! Local search for the contest's problem in Rust, without crates: `search FILE SECONDS`.
//!
//! Knows nothing of Shardmark but its protocol: every better solution and every bound is a line of JSON on
//! standard output. Sums are 128 bits wide, because single costs reach 10^18.

use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

// ---------------------------------------------------------------- JSON, as much of it as the contest's files use

enum Json {
    Object(HashMap<String, Json>),
    List(Vec<Json>),
    Integer(i64),
    Other,
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> u8 {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        if self.peek() != wanted {
            return Err(format!("expected {} at byte {} of the file", wanted as char, self.at));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect(b'"')?;
        let begin = self.at;
        while !matches!(self.text.get(self.at), None | Some(b'"')) {
            self.at += if self.text[self.at] == b'\\' { 2 } else { 1 };
        }
        let end = self.at.min(self.text.len());
        self.expect(b'"')?;
        Ok(String::from_utf8_lossy(&self.text[begin..end]).into_owned())
    }

    /// Call `read` before each element of a list or object, until it ends.
    fn each(&mut self, end: u8, mut read: impl FnMut(&mut Self) -> Result<(), String>) -> Result<(), String> {
        self.at += 1;
        if self.peek() != end {
            read(self)?;
            while self.peek() != end {
                self.expect(b',')?;
                read(self)?;
            }
        }
        self.expect(end)
    }

    fn value(&mut self) -> Result<Json, String> {
        match self.peek() {
            b'{' => {
                let mut members = HashMap::new();
                self.each(b'}', |parser| {
                    let key = parser.string()?;
                    parser.expect(b':')?;
                    members.insert(key, parser.value()?);
                    Ok(())
                })?;
                Ok(Json::Object(members))
            }
            b'[' => {
                let mut items = Vec::new();
                self.each(b']', |parser| {
                    items.push(parser.value()?);
                    Ok(())
                })?;
                Ok(Json::List(items))
            }
            b'"' => self.string().map(|_| Json::Other),
            0 => Err("the file ends too early".to_string()),
            _ => {
                let begin = self.at;
                while !matches!(
                    self.text.get(self.at),
                    None | Some(b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n')
                ) {
                    self.at += 1;
                }
                let word = String::from_utf8_lossy(&self.text[begin..self.at]);
                Ok(word.parse().map_or(Json::Other, Json::Integer))
            }
        }
    }
}

impl Json {
    fn get(&self, key: &str) -> Result<&Json, String> {
        match self {
            Json::Object(members) => members.get(key).ok_or(format!("expected the key {key} in the file")),
            _ => Err(format!("expected an object with the key {key} in the file")),
        }
    }

    fn integers(&self) -> Result<Vec<i64>, String> {
        let Json::List(items) = self else {
            return Err("expected a list of integers in the file".to_string());
        };
        let integer = |item: &Json| match item {
            Json::Integer(value) => Ok(*value),
            _ => Err("expected an integer in the file".to_string()),
        };
        items.iter().map(integer).collect()
    }

    fn lists(&self) -> Result<Vec<Vec<i64>>, String> {
        let Json::List(items) = self else {
            return Err("expected a list of lists in the file".to_string());
        };
        items.iter().map(Json::integers).collect()
    }
}

// ---------------------------------------------------------------- the problem

struct Edge {
    /// Each of its nodes once, with the distance in `table` of the node's next strategy.
    strides: Vec<(usize, usize)>,
    table: Vec<i64>,
}

struct Problem {
    intervals: Vec<Vec<i64>>,
    costs: Vec<Vec<i64>>,
    usages: Vec<Vec<i64>>,
    edges: Vec<Edge>,
    /// The edges of each node.
    touching: Vec<Vec<usize>>,
    limit: Option<i64>,
}

fn read(path: &str) -> Result<Problem, String> {
    let text = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let file = Parser { text: &text, at: 0 }.value()?;
    let problem = file.get("problem")?;
    let (nodes, edges) = (problem.get("nodes")?, problem.get("edges")?);
    let costs = nodes.get("costs")?.lists()?;
    let mut touching = vec![Vec::new(); costs.len()];
    let mut read_edges = Vec::new();
    for (scope, table) in edges
        .get("nodes")?
        .lists()?
        .into_iter()
        .zip(edges.get("costs")?.lists()?)
    {
        let mut strides: Vec<(usize, usize)> = Vec::new();
        let mut stride = 1;
        for node in scope.into_iter().rev() {
            let node = node as usize;
            match strides.iter_mut().find(|known| known.0 == node) {
                Some(known) => known.1 += stride, // it recurs in the edge
                None => {
                    strides.push((node, stride));
                    touching[node].push(read_edges.len());
                }
            }
            stride *= costs[node].len();
        }
        read_edges.push(Edge { strides, table });
    }
    let limit = match problem.get("usage_limit") {
        Ok(Json::Integer(limit)) => Some(*limit),
        _ => None,
    };
    let (intervals, usages) = (nodes.get("intervals")?.lists()?, nodes.get("usages")?.lists()?);
    Ok(Problem {
        intervals,
        costs,
        usages,
        edges: read_edges,
        touching,
        limit,
    })
}

// ---------------------------------------------------------------- the search

struct Search<'a> {
    problem: &'a Problem,
    end: Instant,
    choice: Vec<usize>,
    /// Memory in use in each time step.
    used: Vec<i128>,
    cost: i128,
    waiting: Vec<usize>,
    waits: Vec<bool>,
    /// Nodes that changed and what they had before, in turn.
    trail: Vec<(usize, usize)>,
}

impl<'a> Search<'a> {
    /// Choose what uses the least memory: feasible if anything is.
    fn new(problem: &'a Problem, end: Instant) -> Self {
        let steps = problem.intervals.iter().map(|interval| interval[1]).max().unwrap_or(0);
        let nodes = problem.costs.len();
        let mut search = Search {
            problem,
            end,
            choice: vec![0; nodes],
            used: vec![0; steps as usize],
            cost: 0,
            waiting: (0..nodes).collect(),
            waits: vec![true; nodes],
            trail: Vec::new(),
        };
        for (node, usage) in problem.usages.iter().enumerate() {
            let least = (0..usage.len()).min_by_key(|&strategy| usage[strategy]).unwrap_or(0);
            search.choice[node] = least;
            search.occupy(node, usage[least]);
            search.cost += i128::from(problem.costs[node][least]);
        }
        for edge in &problem.edges {
            search.cost += i128::from(edge.table[search.place(edge)]);
        }
        search
    }

    fn feasible(&self) -> bool {
        self.problem
            .limit
            .map_or(true, |limit| self.used.iter().all(|&used| used <= i128::from(limit)))
    }

    fn place(&self, edge: &Edge) -> usize {
        edge.strides
            .iter()
            .map(|&(node, stride)| self.choice[node] * stride)
            .sum()
    }

    fn steps(&self, node: usize) -> std::ops::Range<usize> {
        let interval = &self.problem.intervals[node]; // half-open
        interval[0] as usize..interval[1] as usize
    }

    fn occupy(&mut self, node: usize, more: i64) {
        let steps = self.steps(node);
        self.used[steps].iter_mut().for_each(|used| *used += i128::from(more));
    }

    /// What a node and its edges cost, for each of its strategies.
    fn prices(&self, node: usize) -> Vec<i128> {
        let mut prices: Vec<i128> = self.problem.costs[node].iter().map(|&cost| i128::from(cost)).collect();
        for &edge in &self.problem.touching[node] {
            let edge = &self.problem.edges[edge];
            let stride = edge
                .strides
                .iter()
                .find(|known| known.0 == node)
                .map_or(0, |known| known.1);
            let first = self.place(edge) - self.choice[node] * stride;
            for (strategy, price) in prices.iter_mut().enumerate() {
                *price += i128::from(edge.table[first + strategy * stride]);
            }
        }
        prices
    }

    fn more_memory(&self, node: usize, strategy: usize) -> i64 {
        self.problem.usages[node][strategy] - self.problem.usages[node][self.choice[node]]
    }

    fn fits(&self, node: usize, strategy: usize) -> bool {
        let more = self.more_memory(node, strategy);
        let Some(limit) = self.problem.limit.filter(|_| more > 0) else {
            return true;
        };
        self.used[self.steps(node)]
            .iter()
            .all(|used| used + i128::from(more) <= i128::from(limit))
    }

    fn choose(&mut self, node: usize, strategy: usize) {
        let prices = self.prices(node);
        self.cost += prices[strategy] - prices[self.choice[node]];
        self.occupy(node, self.more_memory(node, strategy));
        self.choice[node] = strategy;
    }

    fn change(&mut self, node: usize, strategy: usize) {
        self.trail.push((node, self.choice[node]));
        self.choose(node, strategy);
        for &edge in &self.problem.touching[node] {
            for &(other, _) in &self.problem.edges[edge].strides {
                if other != node && !self.waits[other] {
                    self.waits[other] = true;
                    self.waiting.push(other);
                }
            }
        }
    }

    /// Improve nodes until none of those that wait can be.
    fn descend(&mut self) {
        while Instant::now() < self.end {
            let Some(node) = self.waiting.pop() else { return };
            self.waits[node] = false;
            let prices = self.prices(node);
            let mut best = self.choice[node];
            for strategy in 0..prices.len() {
                if prices[strategy] < prices[best] && self.fits(node, strategy) {
                    best = strategy;
                }
            }
            if best != self.choice[node] {
                self.change(node, best);
            }
        }
    }

    fn run(&mut self) {
        self.descend();
        let mut random = Random(7);
        let mut reported: Option<(Instant, i128)> = None;
        while !self.choice.is_empty() {
            let now = Instant::now();
            // a few reports per second: a large solution is a long line
            if reported.map_or(true, |(time, cost)| cost != self.cost && now > time + Duration::from_millis(100)) {
                print(&format!("{{\"solution\": {:?}, \"cost\": {}}}", self.choice, self.cost));
                reported = Some((now, self.cost));
            }
            if now >= self.end {
                return;
            }
            let before = self.cost;
            self.trail.clear();
            let node = random.below(self.choice.len()); // change one node, and let its neighbours follow
            let strategy = random.below(self.problem.costs[node].len());
            if strategy != self.choice[node] && self.fits(node, strategy) {
                self.change(node, strategy);
                self.descend();
            }
            while self.cost > before {
                let Some((changed, strategy)) = self.trail.pop() else {
                    break;
                };
                self.choose(changed, strategy); // worse: back to where it was
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

/// Every node and every edge costs at least its least entry.
fn bound(problem: &Problem) -> i128 {
    let tables = problem.edges.iter().map(|edge| &edge.table);
    problem
        .costs
        .iter()
        .chain(tables)
        .filter_map(|costs| costs.iter().min())
        .map(|&cost| i128::from(cost))
        .sum()
}

/// Print a line and flush it: the referee stamps lines when they arrive.
fn print(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("standard output takes a line");
}

fn main() {
    let start = Instant::now();
    let words: Vec<String> = std::env::args().collect();
    let seconds = words.get(2).and_then(|word| word.parse::<f64>().ok());
    let (Some(seconds), 3) = (seconds, words.len()) else {
        eprintln!("usage: search FILE SECONDS");
        std::process::exit(2);
    };
    let problem = read(&words[1]).unwrap_or_else(|error| {
        eprintln!("search: {error}");
        std::process::exit(1);
    });
    print(&format!("{{\"bound\": {}}}", bound(&problem)));
    let mut search = Search::new(&problem, start + Duration::from_secs_f64(0.9 * seconds));
    if !search.feasible() {
        print("no choice of strategies fits into the memory"); // any other line is log
        return;
    }
    search.run();
    print(&format!("{:?}", search.choice)); // the contest's answer: the last line that is a list
}
