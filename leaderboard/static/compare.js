// The page of comparisons: two solvers, two versions of one, or two campaigns; the choice stands in the address.
"use strict";

(() => {
  const page = document.querySelector("#comparison");
  if (!page) return;
  const FIRST = 100; // rows of the table that are shown until the reader asks for all
  const FEW = 6; // pairs: with fewer that differ, the p value cannot be below 0.05
  const SOONEST = 1e-3; // seconds, the start of logarithmic axes of time
  const { tracks, campaigns } = shardmarkData;

  const element = (name, attributes = {}, ...content) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  };

  // ---------------------------------------------------------------- the choices

  const control = (key, words) => {
    const select = element("select", { name: key });
    return { key, select, label: element("label", {}, element("span", {}, words), select) };
  };
  const controls = Object.fromEntries(
    Object.entries({
      track: "Track",
      by: "Compare",
      a: "First",
      "a-version": "Version",
      b: "Second",
      "b-version": "Version",
      solver: "Solver",
      axis: "Costs as",
    }).map(([key, words]) => [key, control(key, words)]),
  );

  // Offer values in a control, as [value, words]; keep what was chosen if it is still there.
  const offer = (key, options, preferred = options[0]?.[0] ?? "") => {
    const { select, label } = controls[key];
    const asked = pageState.get(key);
    select.replaceChildren(...options.map(([value, words]) => new Option(words, value)));
    const known = options.some(([value]) => value === asked);
    select.value = known ? asked : preferred;
    const side = pageState.get("by") === "campaigns" ? "campaign" : "solver";
    const noun = { track: "track", a: side, b: side, solver: "solver" }[key];
    if (asked && !known && noun) unknown.push(`No ${noun} ${asked} here; showing ${select.selectedOptions[0]?.text ?? "none"}.`);
    label.hidden = options.length < 2;
    return select.value;
  };

  let unknown = []; // what the address asks for in vain
  const choose = () => {
    unknown = [];
    const track = offer("track", Object.keys(tracks).map((name) => [name, name]));
    const { methods, newest } = tracks[track];
    const several = campaigns.filter(({ id }) => methods.some((method) => method.campaigns.includes(id)));
    const kinds = [["solvers", "two solvers, or two versions"], ["campaigns", "two campaigns"]];
    const by = offer("by", several.length > 1 ? kinds : kinds.slice(0, 1));
    const axis = offer("axis", [["gap", "distance from the best known"], ["cost", "they are"]]);
    const named = methods.map(({ name, kind }) => [name, kind === "bound" ? `${name} (bound)` : name]);
    if (by === "campaigns") {
      const listed = several.map(({ id, started }) => [String(id), `${started} UTC`]).reverse();
      const a = offer("a", listed);
      const b = offer("b", listed, listed[1]?.[0]);
      const solver = offer("solver", [["", "all solvers"], ...named]);
      for (const key of ["a-version", "b-version"]) controls[key].label.hidden = true;
      return { track, by, axis, a, b, solver };
    }
    controls.solver.label.hidden = true;
    const solvers = methods.filter(({ kind }) => kind === "solver").map(({ name }) => name);
    const leaders = JSON.parse(page.dataset.leaders)[track] ?? [];
    const a = offer("a", named, newest || leaders[0] || solvers[0]);
    const b = offer("b", named, [...leaders, ...solvers].find((name) => name !== a));
    const versions = { a: offerVersions("a-version", methods, a), b: offerVersions("b-version", methods, b) };
    return { track, by, axis, a, b, versions };
  };

  const offerVersions = (key, methods, name) => {
    const versions = methods.find((method) => method.name === name)?.versions ?? [];
    return offer(key, versions.map((version, place) => [version, place ? version.slice(0, 7) : `newest (${version.slice(0, 7)})`]));
  };

  // ---------------------------------------------------------------- the data of a choice

  const gather = async (choice) => {
    const { methods } = tracks[choice.track];
    const find = (name) => methods.find((method) => method.name === name);
    if (choice.by === "solvers") {
      const [a, b] = [find(choice.a), find(choice.b)];
      if (!a || !b) return null;
      const [runsOfA, runsOfB] = await Promise.all([a, b].map((method) => sides.loadRuns(choice.track, method)));
      const versioned = choice.a === choice.b;
      const name = (side) => (versioned ? `${choice[side]} ${choice.versions[side].slice(0, 7)}` : choice[side]);
      return {
        kind: a.kind === b.kind ? a.kind : "mixed",
        names: [name("a"), name("b")],
        first: sides.ofVersion(a, runsOfA, choice.versions.a),
        second: sides.ofVersion(b, runsOfB, choice.versions.b),
        key: (cell) => cell.place,
      };
    }
    const [a, b] = [Number(choice.a), Number(choice.b)];
    const both = ({ campaigns: own }) => own.includes(a) && own.includes(b);
    const chosen = methods.filter((method) =>
      choice.solver ? method.name === choice.solver : method.kind === "solver" && both(method),
    );
    const runs = await Promise.all(chosen.map((method) => sides.loadRuns(choice.track, method)));
    const of = (campaign) =>
      new Map(chosen.flatMap((method, place) => [...sides.ofCampaign(method, runs[place], campaign)]));
    const named = (id) => `campaign ${campaigns.find((campaign) => campaign.id === id)?.started ?? id}`;
    return {
      kind: chosen[0]?.kind ?? "solver",
      names: [named(a), named(b)],
      first: of(a),
      second: of(b),
      key: (cell) => `${cell.method}\n${cell.place}`,
    };
  };

  // Pairs of cells that both sides have, the greatest difference of scores first.
  const pairUp = (data, choice) => {
    const { name, division, page: pages, best } = tracks[choice.track].instances;
    const others = new Map([...data.second.values()].map((cell) => [data.key(cell), cell]));
    const pairs = [];
    for (const first of data.first.values()) {
      const second = others.get(data.key(first));
      if (!second) continue;
      const difference = first.score - second.score;
      const better = Math.abs(difference) <= wilcoxon.TIE ? "tie" : difference > 0 ? "first" : "second";
      const { place } = first;
      const facts = { instance: name[place], division: division[place], page: pages[place], best: best[place], place };
      pairs.push({ ...facts, first, second, difference, better });
    }
    const order = new Intl.Collator("en", { numeric: true }).compare;
    const size = (pair) => Math.abs(pair.difference);
    return pairs.sort((a, b) => size(b) - size(a) || order(a.instance, b.instance) || order(a.first.method, b.first.method));
  };

  // ---------------------------------------------------------------- words and figures

  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
  const exactly = (value) =>
    value === null ? "–" : value.toLocaleString("en", Number.isInteger(value) ? {} : { maximumSignificantDigits: 6 });
  const scoreText = (score) => (score < 1 ? Math.min(score, 0.999) : score).toFixed(3);
  const chance = (p) => (p < 0.001 ? "p < 0.001" : `p = ${p.toPrecision(2)}`);

  const summary = (data, pairs) => {
    const [a, b] = data.names;
    const count = (which) => pairs.filter(({ better }) => better === which).length;
    const [wins, losses, ties] = [count("first"), count("second"), count("tie")];
    const p = wilcoxon.signedRank(pairs.map(({ difference }) => difference));
    const same = pairs.filter(({ first, second }) => first.method === second.method && first.rows === second.rows).length;
    const verdict = element("p", { class: "verdict" });
    verdict.append(element("strong", {}, a), ` scores higher on ${wins}, `, element("strong", {}, b), ` on ${losses}; ${plural(ties, "tie")}.`);
    const how = wins + losses <= wilcoxon.MOST_EXACT ? "exact" : "normal approximation";
    const test =
      p === null
        ? "All pairs are ties, so there is nothing to test."
        : `Wilcoxon signed-rank test of the differences of scores, two-sided, ${how}: ${chance(p)} for differences as one-sided as these if neither were better.`;
    const few = p !== null && wins + losses < FEW ? ` With ${plural(wins + losses, "pair")} that ${wins + losses === 1 ? "differs" : "differ"}, p is at least ${2 ** (1 - wins - losses)}, however one-sided they are.` : "";
    const shared = same ? ` ${plural(same, "pair")} of the ${pairs.length} share the same runs.` : "";
    return [verdict, element("p", { class: "sure" }, `${plural(pairs.length, "pair")} that both sides ran, seeds averaged. ${test}${few}${shared}`)];
  };

  const distance = (value, best) => (best === 0 ? (value === 0 ? 0 : null) : Math.abs(value / best - 1));

  const figure = (heading, caption, drawing) =>
    element("section", {}, element("h2", {}, heading), element("figure", {}, drawing, element("figcaption", {}, caption)));

  // A scatter of a quantity of both sides; pairs without it on either side are counted in the caption.
  const scatter = (heading, { choice, data, pairs, width }, read, axisOf, words) => {
    const placed = pairs
      .map((pair) => ({ ...pair, x: read(pair.first, pair), y: read(pair.second, pair) }))
      .filter(({ x, y }) => x !== null && y !== null);
    if (!placed.length) return null;
    const [a, b] = data.names;
    for (const pair of placed) {
      const whose = choice.by === "campaigns" ? `${pair.first.method}, ` : "";
      pair.title = `${whose}${pair.instance}: ${words.label(pair.x)} and ${words.label(pair.y)}`;
      pair.pick = () => showCurves(pair);
    }
    const axis = axisOf(placed.flatMap(({ x, y }) => [x, y]));
    const label = `${heading} of ${a} and ${b}, ${plural(placed.length, "pair")}`;
    const drawing = plot.scatter(placed, axis, width, { x: a, y: b, label });
    const missing = pairs.length - placed.length;
    const left = missing ? ` ${plural(missing, "pair")} without a value on a side ${missing === 1 ? "is" : "are"} left out.` : "";
    return figure(heading, `${words.caption}${left}`, drawing);
  };

  const percent = (gap) => {
    if (gap === 0) return "best";
    return gap < 10 ? `${(100 * gap).toPrecision(3)} %` : `${plot.amount(gap)}×`;
  };
  const logarithmic = (label) => (values) => plot.logarithmic(values, label);

  const scatters = (given) => {
    const bound = given.data.kind === "bound";
    const what = bound ? "Lower bounds" : "Costs";
    const above = "On the line both are equal; a dot above it";
    const gap = (cell, { best }) => (cell.value === null || best === null ? null : distance(cell.value, best));
    const positive = ({ value }) => (value > 0 ? value : null);
    const found = ({ found_s: time }) => (time === null ? null : Math.max(time, SOONEST));
    const costs =
      given.choice.axis === "gap"
        ? scatter(`${what}, as distances from the best known`, given, gap, plot.gaps, {
            label: percent,
            caption: `${above} is closer for the first.`,
          })
        : scatter(what, given, positive, logarithmic(plot.amount), {
            label: exactly,
            caption: `${above} is higher for the second.`,
          });
    const times = scatter(`Time to the best ${bound ? "bound" : "solution"}`, given, found, logarithmic(plot.seconds), {
      label: plot.seconds,
      caption: `${above} took the second longer.`,
    });
    return element("div", { class: "pair" }, ...[costs, times].filter(Boolean));
  };

  // ---------------------------------------------------------------- the table, and the curves of one instance

  const table = (choice, data, pairs) => {
    const modes = pairs.some(({ division }) => division);
    const several = choice.by === "campaigns";
    const what = data.kind === "bound" ? "bound" : "cost";
    const [a, b] = ["First", "Second"];
    const headings = [["Instance"], ...(several ? [["Solver"]] : []), ...(modes ? [["Ranked in"]] : []), [`${a} ${what}`, "n"], [`${b} ${what}`, "n"], [`${a} score`, "n"], [`${b} score`, "n"], ["Difference", "n"], [`${a} found (s)`, "n"], [`${b} found (s)`, "n"]];
    const number = (value, words) => element("td", { class: "n", "data-sort": value ?? "" }, words);
    const row = (pair, place) => {
      const { first, second } = pair;
      const shown = (cell) => (cell.value === null ? cell.statuses[0] : exactly(cell.value));
      const curves = element("button", { type: "button", class: "plain small", "aria-label": `Curves of ${pair.instance}` }, "curves");
      curves.addEventListener("click", () => showCurves(pair, true));
      const cells = [
        element("th", { scope: "row" }, element("a", { href: pair.page }, pair.instance), " ", curves),
        ...(several ? [element("td", {}, first.method)] : []),
        ...(modes ? [element("td", {}, pair.division || "–")] : []),
        number(first.value, shown(first)),
        number(second.value, shown(second)),
        number(first.score, scoreText(first.score)),
        number(second.score, scoreText(second.score)),
        number(pair.difference, pair.better === "tie" ? "0" : (pair.difference > 0 ? "+" : "−") + Math.abs(pair.difference).toPrecision(3)),
        number(first.found_s, first.found_s === null ? "–" : first.found_s.toPrecision(3)),
        number(second.found_s, second.found_s === null ? "–" : second.found_s.toPrecision(3)),
      ];
      const made = element("tr", { class: pair.better }, ...cells);
      made.hidden = place >= FIRST;
      return made;
    };
    const head = element("tr", {}, ...headings.map(([words, kind]) => element("th", { scope: "col", class: kind ?? "" }, words)));
    const body = element("tbody", {}, ...pairs.map(row));
    const whole = element("table", { class: "sortable differences" }, element("thead", {}, head), body);
    for (const heading of head.cells) tableSort.addButton(heading);
    const more = element("button", { type: "button", class: "plain" }, `Show all ${pairs.length}, not only the first ${FIRST}`);
    more.hidden = pairs.length <= FIRST;
    const limit = () => Array.from(body.rows).forEach((each, place) => (each.hidden = !more.hidden && place >= FIRST));
    more.addEventListener("click", () => {
      more.hidden = true;
      limit();
    });
    whole.addEventListener("sorted", limit);
    const scroll = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": "differences" }, whole);
    return element("section", { "aria-labelledby": "differences" }, element("h2", { id: "differences" }, "Instances, greatest difference first"), scroll, more);
  };

  let shown; // the choice and the data that the page shows
  const place = element("section", { "aria-labelledby": "curves" });

  const showCurves = async (pair, scroll = false) => {
    pageState.set({ instance: pair.instance, of: shown.choice.by === "campaigns" ? pair.first.method : "" });
    const { choice, data } = shown;
    const { instances } = tracks[choice.track];
    await sides.load(instances.curves[pair.place]);
    const all = shardmarkData.curves[`${choice.track}/${pair.instance}`] ?? [];
    const lines = ["a", "b"].map((side, number) => {
      const method = choice.by === "campaigns" ? pair.first.method : choice[side];
      const cell = number ? pair.second : pair.first;
      const ids = new Set(cell.curves);
      return all.filter(([name, version, seed]) => name === method && ids.has(`${version} ${seed}`));
    });
    const values = lines.flat().flatMap(([, , , , found]) => found);
    place.replaceChildren(element("h2", { id: "curves" }, `Curves of ${pair.instance}`));
    if (!values.length) {
      place.append(element("p", {}, "Neither side reported anything."));
      return;
    }
    const times = lines.flat().flatMap(([, , , found]) => found).map((time) => Math.max(time, SOONEST));
    const relative = pair.best > 0;
    const height = (value) => (relative ? distance(value, pair.best) : value);
    const x = plot.logarithmic(times, plot.seconds);
    const y = relative ? plot.gaps(values.map(height)) : plot.logarithmic(values.map((value) => Math.max(value, 1e-9)), plot.amount);
    const width = fitting();
    const panels = lines.map((own, number) => {
      const curves = own.map(([, , seed, found, reached]) => ({
        title: `${data.names[number]}, seed ${seed}: ${exactly(reached.at(-1))} after ${plot.seconds(found.at(-1))}`,
        points: found.map((time, at) => [Math.max(time, SOONEST), height(reached[at])]),
      }));
      const words = { x: "time since the start", y: relative ? "distance from the best known" : "value", label: `${data.names[number]}: ${plural(own.length, "curve")} on ${pair.instance}` };
      return element("figure", {}, element("figcaption", {}, data.names[number]), plot.curves(curves, x, y, width, words));
    });
    place.append(element("div", { class: "pair" }, ...panels));
    if (scroll) place.scrollIntoView({ block: "start" });
  };

  // Width of one of two charts in a row, in pixels.
  const fitting = () => {
    const whole = page.clientWidth;
    return Math.max(280, Math.min(whole >= 1000 ? (whole - 40) / 2 : whole, 520));
  };

  const results = element("div", { class: "results" });
  const notice = element("p", { role: "status" });
  const show = async () => {
    const choice = choose();
    notice.textContent = unknown.join(" ");
    const asked = (shown = { choice });
    try {
      const data = await gather(choice);
      if (asked !== shown) return; // the reader chose something else meanwhile
      if (!data || data.kind === "mixed") {
        results.replaceChildren(element("p", {}, "A solver and a bound method have nothing to compare: choose two of a kind."));
        return;
      }
      const pairs = pairUp(data, choice);
      shown = { choice, data, pairs };
      if (!pairs.length) {
        results.replaceChildren(element("p", {}, "The two sides have no instance in common."));
        return;
      }
      place.replaceChildren();
      results.replaceChildren(...summary(data, pairs), scatters({ choice, data, pairs, width: fitting() }), place, table(choice, data, pairs));
      const [instance, of] = ["instance", "of"].map(pageState.get);
      const picked = pairs.find((pair) => pair.instance === instance && (!of || pair.first.method === of));
      await showCurves(picked ?? pairs[0]);
    } catch (error) {
      results.replaceChildren(element("p", { class: "alarm" }, error.message));
    }
  };

  const form = element("form", { class: "filters" }, ...Object.values(controls).map(({ label }) => label));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", ({ target }) => {
    const reset = { track: ["a", "b", "a-version", "b-version", "solver"], by: ["a", "b", "a-version", "b-version", "solver"] };
    const cleared = reset[target.name] ?? (target.name.length === 1 ? [`${target.name}-version`] : []);
    pageState.set({ ...Object.fromEntries(cleared.map((key) => [key, ""])), [target.name]: target.value });
    show();
  });
  let width = 0;
  addEventListener("resize", () => {
    if (fitting() === width) return;
    width = fitting();
    show();
  });
  page.append(form, notice, results);
  width = fitting();
  show();
})();
