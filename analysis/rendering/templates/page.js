"use strict";
// A click on a column's title sorts by it, another one the other way round; what is missing stays last.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], titles = [...table.tHead.rows[0].cells];
  if (body.rows.length < 2) continue;
  titles.forEach((title, column) => {
    const numbers = title.classList.contains("n"), button = document.createElement("button");
    const value = row => {
      const text = row.cells[column].textContent;
      if (text === "-" || text === "" || text === "incomplete") return null;
      return numbers ? parseFloat(text.replace(/^[\[<]/, "").replace(/(\d),(?=\d)/g, "$1")) : text;
    };
    const compare = (a, b) => numbers ? a - b : a.localeCompare(b, "en", { numeric: true });
    button.type = "button";
    button.title = "sort";
    button.append(...title.childNodes);
    title.append(button);
    button.addEventListener("click", () => {
      const down = title.getAttribute("aria-sort") === "ascending";
      const rows = [...body.rows].map(row => [value(row), row]);
      rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : (down ? -1 : 1) * compare(a, b));
      for (const other of titles) other.removeAttribute("aria-sort");
      title.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows.map(([, row]) => row));
    });
  });
}
// Paper shows everything but the plan: what is folded is opened for it, and folded again afterwards.
const folded = [...document.querySelectorAll("main > details")];
addEventListener("beforeprint", () => folded.forEach(part => { part.wasOpen = part.open; part.open = true; }));
addEventListener("afterprint", () => folded.forEach(part => { part.open = part.wasOpen; }));
