// The two sides of a comparison: the runs of a solver's version, or of a campaign, averaged over seeds.
"use strict";

const sides = (() => {
  // Load a file of data once; it fills shardmarkData.
  const loading = new Map();
  const load = (path) => {
    if (!loading.has(path)) {
      loading.set(
        path,
        new Promise((done, failed) => {
          const script = document.createElement("script");
          script.src = path;
          script.onload = done;
          script.onerror = () => failed(new Error(`The file ${path} is missing.`));
          document.head.append(script);
        }),
      );
    }
    return loading.get(path);
  };

  const loadRuns = async (track, method) => {
    await load(method.file);
    return shardmarkData.runs[`${track}/${method.name}`];
  };

  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);

  // Cells {method, place, value, score, found_s, wall_s, runs, solved, rows, curves} of the rows that `asked` accepts, by method
  // and instance. A later row of an instance and seed replaces an earlier one.
  const cells = (method, runs, asked) => {
    const rows = new Map();
    for (let row = 0; row < runs.instance.length; row++) {
      if (asked(row) && runs.score[row] !== null) rows.set(`${runs.instance[row]} ${runs.seed[row]}`, row);
    }
    const groups = new Map();
    for (const row of rows.values()) {
      const place = runs.instance[row];
      if (!groups.has(place)) groups.set(place, []);
      groups.get(place).push(row);
    }
    const made = new Map();
    for (const [place, own] of groups) {
      const solved = own.filter((row) => runs.value[row] !== null);
      const of = (column, which) => mean(which.map((row) => runs[column][row]));
      made.set(`${method.name}\n${place}`, {
        method: method.name,
        place,
        value: of("value", solved),
        score: of("score", own),
        found_s: of("found_s", solved),
        wall_s: of("wall_s", own),
        runs: own.length,
        solved: solved.length,
        rows: own.join(" "),
        curves: own.map((row) => `${runs.versions[runs.version[row]]} ${runs.seed[row]}`),
        statuses: own.map((row) => runs.statuses[runs.status[row]]),
      });
    }
    return made;
  };

  const ofVersion = (method, runs, version) => {
    const number = Math.max(0, runs.versions.indexOf(version));
    return cells(method, runs, (row) => runs.version[row] === number);
  };
  const ofCampaign = (method, runs, campaign) => {
    const has = runs.campaigns.map((numbers) => numbers.includes(campaign));
    return cells(method, runs, (row) => has[runs.asked[row]]);
  };

  return { load, loadRuns, ofVersion, ofCampaign };
})();
