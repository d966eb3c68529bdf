"use strict";

// A link shows its target, even if that is folded up or filtered away.
function unfold() {
  const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (found && found.closest("[hidden]")) { filter.reset(); show(); }
  for (let at = found; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  if (found) found.scrollIntoView();
}

// The filter hides each element that names another task, norm or scale than the chosen one.
const filter = document.getElementById("filter");
function show() {
  const chosen = Object.fromEntries([...new FormData(filter)].filter(([, value]) => value));
  for (const element of document.querySelectorAll("[data-task], [data-norm], [data-scale]"))
    element.hidden = Object.entries(chosen).some(([key, value]) => (element.dataset[key] ?? value) !== value);
  // Hide tables whose cells are all hidden: they would be empty frames.
  for (const section of document.querySelectorAll("section[data-scale]"))
    section.hidden ||= !section.querySelector("tbody tr:not([hidden]) td:not([hidden])");
  const query = new URLSearchParams(chosen).toString();
  history.replaceState(null, "", (query ? "?" + query : location.pathname) + location.hash);
}
filter.hidden = false;
for (const select of filter.querySelectorAll("select"))
  for (const value of new Set([...document.querySelectorAll(`[data-${select.name}]`)].map((one) => one.dataset[select.name])))
    select.add(new Option(value));
for (const [key, value] of new URLSearchParams(location.search)) if (filter.elements[key]) filter.elements[key].value = value;
filter.addEventListener("change", show);
filter.addEventListener("reset", () => setTimeout(show));

// A click on a column's head sorts by the column: by each cell's first number, then cells without one. A second
// click reverses the order.
function valueOf(row, column) {
  const text = row.cells[column].textContent.trim(), number = parseFloat(text);
  return Number.isNaN(number) ? text : number;
}
function sort(table, column) {
  const head = table.tHead.rows[0].cells[column], falling = head.getAttribute("aria-sort") === "ascending";
  const rows = [...table.tBodies[0].rows].sort((one, other) => {
    const a = valueOf(one, column), b = valueOf(other, column);
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    const order = typeof a === "number" ? a - b : a.localeCompare(b);
    return falling ? -order : order;
  });
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falling ? "descending" : "ascending");
  table.tBodies[0].append(...rows);
}
for (const table of document.querySelectorAll("table.sortable"))
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, head.cellIndex));
  }

if (location.search) show();
addEventListener("hashchange", unfold);
unfold();
