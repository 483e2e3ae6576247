// Sort tables by a click, or Enter, on a heading. Without this script tables keep their order.
"use strict";

const rank = (cell) => {
  const text = cell.dataset.sort ?? cell.textContent.trim();
  if (text === "" || text === "–") return null;
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
};

const compare = (a, b) =>
  typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });

// Sort by one column; cells without a value stay last, equal ones keep their order.
const sort = (table, column, descending) => {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => ({ row, key: row.cells[column] ? rank(row.cells[column]) : null }));
  rows.sort((a, b) => {
    if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
    return descending ? compare(b.key, a.key) : compare(a.key, b.key);
  });
  for (const { row } of rows) body.append(row);
};

const activate = (table, heading) => {
  const numeric = heading.classList.contains("n") || table.classList.contains("matrix");
  const before = heading.getAttribute("aria-sort");
  const descending = before ? before === "ascending" : numeric && heading.cellIndex > 0;
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  sort(table, heading.cellIndex, descending);
};

for (const table of document.querySelectorAll("table.sortable")) {
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    if (heading.querySelector("a")) {
      button.className = "sort-only"; // the heading is already a link: the button goes beside it
      button.setAttribute("aria-label", `Sort by ${heading.textContent.trim()}`);
      heading.append(button);
    } else {
      button.append(...heading.childNodes);
      heading.append(button);
    }
    button.addEventListener("click", () => activate(table, heading));
  }
}
