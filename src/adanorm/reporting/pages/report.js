"use strict";

// A link to what is folded up or filtered away shows it.
function unfold() {
  const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (found && found.closest("[hidden]")) { filter.reset(); show(); }
  for (let at = found; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  if (found) found.scrollIntoView();
}

// What is shown: elements name their task, norm or scale; one of another than the chosen is hidden.
const filter = document.getElementById("filter");
function show() {
  const chosen = Object.fromEntries([...new FormData(filter)].filter(([, value]) => value));
  for (const element of document.querySelectorAll("[data-task], [data-norm], [data-scale]"))
    element.hidden = Object.entries(chosen).some(([key, value]) => (element.dataset[key] ?? value) !== value);
  // A table without a row or a column of what is chosen would be an empty frame.
  for (const section of document.querySelectorAll("section[data-scale]"))
    section.hidden ||= !section.querySelector("tbody tr:not([hidden]) td:not([hidden])");
  const query = new URLSearchParams(chosen).toString();
  history.replaceState(null, "", (query ? "?" + query : location.pathname) + location.hash);
}
filter.hidden = false;
for (const [key, value] of new URLSearchParams(location.search)) if (filter.elements[key]) filter.elements[key].value = value;
filter.addEventListener("change", show);
filter.addEventListener("reset", () => setTimeout(show));

// Tables are sorted by a column, by its first number where it has one; once more turns the order. What has no
// number stays below.
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

// Seeds as dots, and how often a run of one row scores better than a run of another.
function element(name, attributes, ...children) {
  const made = ["svg", "circle", "line", "title"].includes(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
function dots(found) {
  const scores = found.rows.flatMap(row => Object.values(row.seeds));
  const low = Math.min(...scores), span = Math.max(...scores) - low || 1;
  const place = score => (2 + 96 * (score - low) / span) + "%";
  const made = element("div", {class: "dots"});
  for (const row of found.rows) {
    const values = Object.values(row.seeds), mean = values.reduce((a, b) => a + b, 0) / values.length;
    const said = values.map(value => value.toFixed(2)).join(", ");
    const drawn = element("svg", {role: "img", "aria-label": `${row.title}: ${said}`});
    for (const [seed, score] of Object.entries(row.seeds))
      drawn.append(element("circle", {cx: place(score), cy: "50%", r: 4}, element("title", {}, `seed ${seed}: ${score}`)));
    if (values.length) drawn.append(element("line", {x1: place(mean), x2: place(mean), y1: "10%", y2: "90%"}));
    made.append(element("a", {href: "#" + row.anchor}, row.title), drawn);
  }
  const ends = element("small", {}, `each run's test ${found.metric}, from ${low.toFixed(2)} to ${(low + (scores.length ? span : 0)).toFixed(2)}; the line is the mean`);
  made.append(element("span", {}), ends);
  return made;
}
function matrix(found) {
  const head = element("tr", {}, element("th", {}, "P(row better than column)"), ...found.rows.map(row => element("th", {scope: "col"}, row.title)));
  const body = found.rows.map((row, i) => element("tr", {}, element("th", {scope: "row"}, row.title), ...found.better[i].map(share => {
    const cell = element("td", {class: "share"}, share === null ? "" : share.toFixed(2));
    if (share !== null) cell.style.background = `color-mix(in srgb, var(--${share < .5 ? "bad" : "good"}) ${Math.round(90 * Math.abs(share - .5))}%, Canvas)`;
    return cell;
  })));
  return element("div", {class: "wide"}, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}
const data = document.getElementById("comparisons");
if (data) {
  const all = JSON.parse(data.textContent), form = document.getElementById("comparison"), shown = document.getElementById("compared");
  const names = [...new Set(all.map(found => found.table))];
  const tasks = () => all.filter(found => found.table === form.elements.table.value).map(found => found.task);
  const compare = () => {
    const found = all.find(one => one.table === form.elements.table.value && one.task === form.elements.column.value);
    shown.replaceChildren(dots(found), matrix(found));
  };
  const columns = () => form.elements.column.replaceChildren(...tasks().map(task => element("option", {}, task)));
  form.elements.table.append(...names.map(name => element("option", {}, name)));
  form.elements.table.value = names.includes("overview") ? "overview" : names[0];
  form.hidden = false;
  form.addEventListener("change", event => { if (event.target.name === "table") columns(); compare(); });
  columns();
  compare();
}

if (location.search) show();
addEventListener("hashchange", unfold);
unfold();
