// The Wilcoxon signed-rank test, as leaderboard/explore/wilcoxon.py computes it.
"use strict";

const wilcoxon = (() => {
  const MOST_EXACT = 50;
  const UNIT = 1e-12; // differences are compared as multiples of this
  const TIE = 1e-9; // differences up to this are ties

  // Complementary error function of x >= 0, relative error below 1.2e-7 (Press et al., Numerical Recipes, 3rd edition, 6.2.2).
  const erfc = (x) => {
    const t = 1 / (1 + 0.5 * x);
    const terms = [
      0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
      -1.26551223,
    ];
    return t * Math.exp(-x * x + terms.reduce((sum, term) => sum * t + term, 0));
  };

  // Share of the sign patterns, on both sides, whose sum of positive ranks lies at least as far from the middle.
  const exact = (ranks, positive) => {
    const total = ranks.reduce((sum, rank) => sum + rank, 0);
    const ways = new Float64Array(total + 1);
    ways[0] = 1;
    for (const rank of ranks) for (let sum = total; sum >= rank; sum--) ways[sum] += ways[sum - rank];
    const tail = ways.slice(0, Math.min(positive, total - positive) + 1).reduce((sum, count) => sum + count, 0);
    return Math.min(1, (2 * tail) / 2 ** ranks.length);
  };

  const normal = (ranks, positive, counts) => {
    const n = ranks.length;
    const equal = [...counts.values()].reduce((sum, count) => sum + count ** 3 - count, 0);
    const variance = (n * (n + 1) * (2 * n + 1)) / 24 - equal / 48;
    const z = (positive / 2 - (n * (n + 1)) / 4) / Math.sqrt(variance);
    return erfc(Math.abs(z) / Math.SQRT2);
  };

  // Two-sided p value of paired differences of scores; null if all are ties.
  const signedRank = (differences) => {
    const units = differences.filter((value) => Math.abs(value) > TIE).map((value) => Math.round(value / UNIT));
    if (units.length === 0) return null;
    const counts = new Map();
    for (const unit of units) counts.set(Math.abs(unit), (counts.get(Math.abs(unit)) ?? 0) + 1);
    const rankOf = new Map(); // doubled ranks, which are integers
    let below = 0;
    for (const size of [...counts.keys()].sort((a, b) => a - b)) {
      rankOf.set(size, 2 * below + counts.get(size) + 1);
      below += counts.get(size);
    }
    const ranks = units.map((unit) => rankOf.get(Math.abs(unit)));
    const positive = units.reduce((sum, unit, place) => (unit > 0 ? sum + ranks[place] : sum), 0);
    return units.length <= MOST_EXACT ? exact(ranks, positive) : normal(ranks, positive, counts);
  };

  return { signedRank, TIE, MOST_EXACT };
})();
