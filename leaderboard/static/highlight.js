// Highlight a solver in all tables and charts of a page by a click; `?solver=NAME` in the address does the same.
//
// Rows and parts of charts name their solver in data-solver. Until the reader chooses, the newest solvers are marked.
"use strict";

(() => {
  const NONE = "none"; // in the address, if the reader wants nothing marked
  const marked = [...document.querySelectorAll("[data-solver]")];
  if (!marked.length) return;
  const newest = JSON.parse(document.querySelector("main").dataset.newest ?? "[]");
  const names = new Set(marked.map((part) => part.dataset.solver));
  const buttons = [];

  const show = () => {
    const asked = pageState.get("solver");
    const chosen = new Set(asked ? [asked] : newest);
    for (const part of marked) {
      const own = chosen.has(part.dataset.solver);
      part.classList.toggle("chosen", own);
      if (own && part.matches("svg > g.series")) part.parentNode.append(part); // on top of the others
    }
    for (const button of buttons) button.setAttribute("aria-pressed", chosen.has(button.dataset.name));
    document.documentElement.classList.toggle("choosing", names.has(asked));
  };

  const toggle = (name) => {
    const asked = pageState.get("solver");
    const off = asked ? asked === name : newest.includes(name);
    pageState.set({ solver: off ? (newest.length ? NONE : "") : name });
    show();
  };

  for (const part of marked) {
    const name = part.dataset.solver;
    if (part.matches("tr")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "pin";
      button.dataset.name = name;
      button.title = `Highlight ${name}`;
      button.setAttribute("aria-label", button.title);
      const heading = part.querySelector("th");
      const chip = heading.querySelector(".chip");
      if (chip) button.append(chip);
      heading.prepend(button);
      button.addEventListener("click", () => toggle(name));
      buttons.push(button);
    } else {
      part.addEventListener("click", (event) => {
        if (!event.target.closest("a")) toggle(name);
      });
    }
  }
  show();
})();
