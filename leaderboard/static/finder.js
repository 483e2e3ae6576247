// Search, filters and columns of a table of `.finder`; what is chosen stands in the page's address.
//
// The table itself is the data. Attributes of its headings say what the script offers:
//   data-column  key of the column in the address
//   data-filter  "choice" (one of the values; a cell may list several as `.each`) or "range" (from, to)
//   data-extra   hidden until the reader chooses the column
"use strict";

(() => {
  const finder = document.querySelector(".finder");
  if (!finder) return;
  const table = finder.querySelector("table");
  const headings = [...table.tHead.rows[0].cells];
  const label = (heading) => heading.textContent.trim();
  const noun = finder.dataset.noun;
  const FIRST = 100; // rows shown until the reader asks for all: layout of more would take longer than a keystroke may
  let rows = Array.from(table.tBodies[0].rows, (row) => ({
    row,
    text: row.textContent.toLowerCase(),
    values: [], // by column, what its filter compares
  }));
  const entryOf = new Map(rows.map((entry) => [entry.row, entry]));

  const element = (name, attributes = {}, ...content) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  };
  const labelled = (words, control) => element("label", {}, element("span", {}, words), control);

  // ---------------------------------------------------------------- filters: each has its key, controls and a test

  const values = (cell) => {
    const each = cell.querySelectorAll(".each");
    return each.length ? Array.from(each, (part) => part.textContent.trim()) : [cell.textContent.trim()];
  };

  const choice = (heading) => {
    const column = heading.cellIndex;
    const found = rows.map(({ row }) => values(row.cells[column]));
    rows.forEach((entry, place) => (entry.values[column] = found[place]));
    const order = new Intl.Collator("en", { numeric: true }).compare;
    const all = [...new Set(found.flat())].filter((value) => value && value !== "–").sort(order);
    if (all.length < 2) return null;
    const select = element("select", {}, new Option("all", ""), ...all.map((value) => new Option(value, value)));
    return {
      key: heading.dataset.column,
      controls: [labelled(label(heading), select)],
      read: () => select.value,
      write: (value) => (select.value = all.includes(value) ? value : ""),
      test: (value) => (entry) => entry.values[column].includes(value),
    };
  };

  const range = (heading) => {
    const column = heading.cellIndex;
    for (const entry of rows) {
      const sort = entry.row.cells[column].dataset.sort;
      entry.values[column] = sort === "" ? null : Number(sort);
    }
    const ends = ["from", "to"].map((end) =>
      element("input", { type: "number", min: "0", placeholder: end, "aria-label": `${label(heading)} ${end}` }),
    );
    return {
      key: heading.dataset.column,
      controls: [element("fieldset", {}, element("legend", {}, label(heading)), ...ends)],
      read: () => (ends.some((end) => end.value) ? ends.map((end) => end.value).join("..") : ""),
      write: (value) => {
        const [from, to = ""] = value.split("..");
        ends[0].value = from;
        ends[1].value = to;
      },
      test: (value) => {
        const [from, to] = value.split("..");
        const low = from ? Number(from) : -Infinity;
        const high = to ? Number(to) : Infinity;
        return ({ values: { [column]: value } }) => value !== null && low <= value && value <= high;
      },
    };
  };

  const search = element("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  const words = {
    key: "q",
    controls: [labelled("Search", search)],
    read: () => search.value.trim(),
    write: (value) => (search.value = value),
    test: (value) => {
      const terms = value.toLowerCase().split(/\s+/);
      return (entry) => terms.every((term) => entry.text.includes(term));
    },
  };
  const makers = { choice, range };
  const filters = [words];
  for (const heading of headings) {
    const filter = makers[heading.dataset.filter]?.(heading);
    if (filter) filters.push(filter);
  }

  // ---------------------------------------------------------------- columns

  const shownAtFirst = headings.filter((heading) => !("extra" in heading.dataset));
  const boxes = new Map();
  for (const heading of headings.slice(1)) {
    const box = element("input", { type: "checkbox" });
    boxes.set(heading, box);
    box.addEventListener("change", () => {
      showColumns();
      const chosen = headings.filter((other) => boxes.get(other)?.checked);
      const changed = chosen.length !== shownAtFirst.length - 1 || chosen.some((other) => "extra" in other.dataset);
      pageState.set({ columns: changed ? chosen.map((other) => other.dataset.column).join(" ") || "none" : "" });
    });
  }

  const showColumns = () => {
    const hidden = headings.map((heading) => boxes.has(heading) && !boxes.get(heading).checked);
    for (const row of table.rows) for (const cell of row.cells) cell.hidden = hidden[cell.cellIndex];
  };

  // ---------------------------------------------------------------- together

  const count = element("p", { class: "found", role: "status" });
  const more = element("button", { type: "button", class: "plain" });
  const reset = element("button", { type: "button", class: "plain" }, "Clear all filters");
  const fold = element("button", { type: "button", class: "plain fold" }, "Filters"); // on a phone, the style folds them
  const others = filters.slice(1).flatMap((filter) => filter.controls);
  const bar = element("form", { class: "filters", role: "search" }, ...words.controls, fold, ...others);
  const unfold = (open) => {
    bar.classList.toggle("folded", !open);
    fold.setAttribute("aria-expanded", open);
  };
  const columns = element(
    "details",
    { class: "columns" },
    element("summary", {}, "Columns"),
    element("div", {}, ...[...boxes].map(([heading, box]) => element("label", {}, box, label(heading)))),
  );

  const target = () => document.getElementById(decodeURIComponent(location.hash.slice(1))); // its row is shown always
  const apply = () => {
    const active = filters.map((filter) => [filter, filter.read()]).filter(([, value]) => value);
    const tests = active.map(([filter, value]) => filter.test(value));
    const linked = target();
    const most = pageState.get("rows") === "all" ? Infinity : FIRST;
    let found = 0;
    for (const entry of rows) {
      const fits = tests.every((test) => test(entry));
      found += fits;
      const hidden = (!fits || found > most) && entry.row !== linked;
      if (entry.row.hidden !== hidden) entry.row.hidden = hidden;
    }
    count.textContent = tests.length ? `${found} of ${rows.length} ${noun}` : `${rows.length} ${noun}`;
    more.textContent = `Show all ${found}, not only the first ${most}`;
    more.hidden = found <= most;
    reset.hidden = tests.length === 0;
    return active;
  };
  const change = () => {
    const chosen = Object.fromEntries(apply().map(([filter, value]) => [filter.key, value]));
    pageState.set(Object.fromEntries(filters.map((filter) => [filter.key, chosen[filter.key] ?? ""])));
  };

  fold.addEventListener("click", () => unfold(bar.classList.contains("folded")));
  addEventListener("hashchange", () => {
    apply();
    target()?.scrollIntoView();
  });
  bar.addEventListener("input", change);
  bar.addEventListener("submit", (event) => event.preventDefault());
  reset.addEventListener("click", () => {
    for (const filter of filters) filter.write("");
    change();
  });
  more.addEventListener("click", () => {
    pageState.set({ rows: "all" });
    apply();
  });
  const reorder = () => {
    rows = Array.from(table.tBodies[0].rows, (row) => entryOf.get(row));
    apply();
  };
  table.addEventListener("sorted", ({ target, detail }) => {
    pageState.set({ sort: `${detail.descending ? "-" : ""}${target.dataset.column}` });
    reorder();
  });

  for (const filter of filters) filter.write(pageState.get(filter.key));
  unfold(filters.slice(1).some((filter) => filter.read()));
  const columnsAsked = pageState.get("columns").split(" ");
  for (const [heading, box] of boxes) {
    box.checked = columnsAsked[0] ? columnsAsked.includes(heading.dataset.column) : shownAtFirst.includes(heading);
  }
  showColumns();
  const sortAsked = pageState.get("sort");
  const sorted = headings.find((heading) => heading.dataset.column === sortAsked.replace(/^-/, ""));
  if (sorted) tableSort.sort(sorted, sortAsked.startsWith("-"));
  reorder();
  finder.prepend(bar, element("div", { class: "found-bar" }, count, reset, columns));
  finder.append(more);
  target()?.scrollIntoView(); // the controls moved it
})();
