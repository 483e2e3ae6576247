// Sort tables by a click, or Enter, on a heading. Without this script tables keep their order.
"use strict";

const tableSort = (() => {
  const rank = (cell) => {
    const text = cell.dataset.sort ?? cell.textContent.trim();
    if (text === "" || text === "–") return null;
    const number = Number(text);
    return Number.isNaN(number) ? text : number;
  };

  const collator = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));

  // Sort by the column of a heading; cells without a value stay last, equal ones keep their order.
  const sort = (heading, descending) => {
    const table = heading.closest("table");
    const column = heading.cellIndex;
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => ({ row, key: row.cells[column] ? rank(row.cells[column]) : null }));
    rows.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      return descending ? compare(b.key, a.key) : compare(a.key, b.key);
    });
    body.append(...rows.map(({ row }) => row));
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  };

  // Sort by a column, or turn its order round; numbers begin with the greatest.
  const activate = (heading) => {
    const numeric = heading.classList.contains("n") || heading.closest("table").classList.contains("matrix");
    const before = heading.getAttribute("aria-sort");
    const descending = before ? before === "ascending" : numeric && heading.cellIndex > 0;
    sort(heading, descending);
    heading.dispatchEvent(new CustomEvent("sorted", { bubbles: true, detail: { descending } }));
  };

  const addButton = (heading) => {
    const button = document.createElement("button");
    button.type = "button";
    if (heading.querySelector("a")) {
      button.className = "sort-only"; // the heading is already a link: the button follows it
      button.setAttribute("aria-label", `Sort by ${heading.textContent.trim()}`);
    } else {
      button.append(...heading.childNodes);
    }
    heading.append(button);
    button.addEventListener("click", () => activate(heading));
  };

  for (const heading of document.querySelectorAll("table.sortable > thead > tr:first-child > *")) addButton(heading);
  return { sort, addButton };
})();
