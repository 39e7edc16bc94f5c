"use strict";
// Sorts the table of devices by the column whose heading is clicked; unknown values stay last.
const table = document.getElementById("fleet");
if (table) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const compare = (a, b) => (a !== "" && b !== "" && !isNaN(a) && !isNaN(b) ? a - b : a.localeCompare(b, "en", { numeric: true }));
  headings.forEach((heading, place) => {
    heading.firstElementChild.addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") ? heading.getAttribute("aria-sort") === "descending" : heading.classList.contains("name");
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [row.cells[place].dataset.order, row]);
      rows.sort(([a], [b]) => (a === "") - (b === "") || (up ? 1 : -1) * compare(a, b));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
