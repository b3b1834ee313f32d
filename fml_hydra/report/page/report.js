"use strict";
(() => {
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const show = () => theme.setAttribute("aria-pressed", String(dark()));
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  show();

  // A cell's sort key: its first number, else its text; what is not known comes last.
  const key = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const found = text.replace(/−/g, "-").replace(/,/g, "").match(/^[<$+ ]*(-?[\d.]+)/);
    if (text === "N/A" || text === "–" || text.startsWith("undefined")) return null;
    return found ? parseFloat(found[1]) : text.toLowerCase();
  };
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return sign * (a < b ? -1 : a > b ? 1 : 0);
  };
  const sort = (head) => {
    const ascending = head.getAttribute("aria-sort") === "descending" ||
      (!head.hasAttribute("aria-sort") && !head.classList.contains("n"));
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0];
    const keyed = Array.from(body.rows, (row) => [key(row, head.cellIndex), row]);
    keyed.sort((a, b) => compare(a[0], b[0], ascending ? 1 : -1));
    body.append(...keyed.map((pair) => pair[1]));
  };
  document.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (head) sort(head);
  });

  const runs = Array.from(document.querySelectorAll(".run"));
  const find = document.getElementById("find");
  const fold = document.getElementById("fold");
  if (find) {
    find.addEventListener("input", () => {
      const words = find.value.toLowerCase().split(/\s+/);
      for (const run of runs) {
        const text = run.querySelector(".what").textContent.toLowerCase();
        run.hidden = !words.every((word) => text.includes(word));
      }
    });
    fold.addEventListener("click", () => {
      const open = fold.textContent === "Open all";
      for (const run of runs) if (!run.hidden) run.open = open;
      fold.textContent = open ? "Close all" : "Open all";
    });
  }
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches("details")) target.open = true;
  };
  window.addEventListener("hashchange", unfold);
  unfold();
})();
