// The events of the map and the panels beside it: tooltip, chosen node with its neighbours, search, selection.

const nodeAt = (point) => view.groups[point.curveNumber]?.nodes[point.pointNumber];

function listenToMap() {
  if (!payload.runs.some((run) => run.map)) return;
  Plotly.newPlot(view.div, [], {}, QUIET); // adds Plotly's events to the element
  view.div.on("plotly_hover", hover);
  view.div.on("plotly_unhover", () => { hovered = null; view.tip.hidden = true; });
  view.div.on("plotly_click", ({ points }) => choose(nodeAt(points[0])));
  view.div.on("plotly_selected", (event) => { if (event) select(event.points.map(nodeAt)); });
  view.div.on("plotly_deselect", () => select([]));
  view.div.on("plotly_doubleclick", () => { if (state.mode === "pan") moveTo(view.home.x, view.home.y); });
  // The wheel scrolls the page until the map is clicked, and again after the pointer has left the map.
  let active = false;
  view.div.addEventListener("pointerdown", () => { active = true; });
  view.div.addEventListener("pointerleave", ({ clientX: x, clientY: y }) => {
    const { left, right, top, bottom } = view.div.getBoundingClientRect();
    active = x > left && x < right && y > top && y < bottom; // Plotly covers the page while a button is down
  });
  view.div.addEventListener("wheel", (event) => { if (!active && !event.ctrlKey) event.stopPropagation(); }, { capture: true });
  matchMedia("(max-width: 700px)").addEventListener("change", () => { if (view.map) drawMap(); });
}

let hovered = null;
function hover({ points, event }) {
  const waiting = hovered !== null;
  hovered = { node: nodeAt(points[0]), event };
  if (!waiting) requestAnimationFrame(showTip); // at most once per frame
}

function showTip() {
  if (!hovered) return;
  const { node, event } = hovered;
  hovered = null;
  view.tip.replaceChildren(el("strong", {}, short(view.map.ids[node], 60)), attributes(node, MOST_ATTRIBUTES));
  view.tip.hidden = false;
  const box = view.div.getBoundingClientRect();
  const left = event.clientX - box.left, top = event.clientY - box.top;
  const { offsetWidth: width, offsetHeight: height } = view.tip;
  view.tip.style.left = `${Math.max(4, left + 16 + width > box.width ? left - width - 16 : left + 16)}px`;
  view.tip.style.top = `${Math.max(4, Math.min(top - height / 2, box.height - height - 4))}px`;
}

function attributes(node, most = Infinity) {
  const { columns } = view.map;
  const first = columns.slice(0, most);
  const chosen = chosenColumn();
  if (chosen && !first.includes(chosen)) first[most - 1] = chosen;
  return el("dl", {}, first.flatMap((column) => [el("dt", {}, short(column.name, 40)), el("dd", {}, short(shown(column, node), 80))]),
    first.length < columns.length ? el("dt", {}, `and ${columns.length - first.length} more`) : null);
}

function choose(node, move = false) {
  if (node === undefined) return;
  state.node = node;
  showNode();
  if (!move) { Plotly.relayout(view.div, marks()); return; }
  // Centre the node and zoom in until its neighbours can be told apart; never zoom out.
  const around = (centre, now, home) => {
    const span = Math.min(now[1] - now[0], 0.4 * (home[1] - home[0]));
    return [centre - span / 2, centre + span / 2];
  };
  const { xaxis, yaxis } = view.div.layout;
  moveTo(around(view.map.x[node], xaxis.range, view.home.x), around(view.map.y[node], yaxis.range, view.home.y));
}

function swatch(node) {
  const column = chosenColumn();
  const colour = column?.kind === "category" ? view.colours.get(column.values[node]) : null;
  return el("span", { class: "swatch", style: `background:${colour ?? "transparent"}` });
}

// Replace the content of a panel. Keyboard focus inside the panel stays in it.
function renew(panel, ...children) {
  const focused = panel.contains(document.activeElement);
  panel.replaceChildren(...children);
  panel.tabIndex = -1;
  if (focused) panel.focus({ preventScroll: true });
}

function showNode() {
  const { node } = state;
  if (node === null) {
    renew($("node"), el("h3", {}, "Node"),
      el("p", { class: "quiet" }, "Click a node or search for its id to see its attributes and nearest neighbours."));
    return;
  }
  const column = chosenColumn();
  $("node").dataset.node = view.map.ids[node];
  renew($("node"),
    el("h3", {}, `Node ${short(view.map.ids[node], 60)}`, el("button", { class: "close", type: "button", "aria-label": "Close", onclick: () => {
      state.node = null;
      delete $("node").dataset.node;
      showNode();
      Plotly.relayout(view.div, marks());
    } }, "✕")),
    attributes(node),
    el("h4", {}, "Nearest neighbours (cosine similarity)"),
    el("ol", { class: "rows", id: "neighbours" }, neighbours(node).map(({ node: other, cosine }, place) => el("li", {},
      el("button", { type: "button", "data-node": view.map.ids[other], onclick: () => choose(other, true) },
        swatch(other), el("span", { class: "name" }, view.map.ids[other], column ? el("small", {}, `  ${shown(column, other)}`) : null,
          sharedEdge(node, place)),
        el("span", { class: "number" }, decimal(cosine)))))),
    ...shared(node));
}

// ------------------------------------------------------------------------------------------------ search

function matches(text, most) {
  const { ids, place } = view.map;
  const starting = place.has(text) ? [place.get(text)] : [];
  const low = text.toLowerCase();
  const containing = []; // listed after the ids that start with the text
  for (let i = 0; i < ids.length && starting.length < most; i++) {
    const place = ids[i] === text ? -1 : ids[i].toLowerCase().indexOf(low);
    if (place === 0) starting.push(i);
    else if (place > 0 && containing.length < most) containing.push(i);
  }
  return starting.concat(containing).slice(0, most);
}

function suggest(event) {
  const text = event.target.value.trim();
  $("suggestions").replaceChildren(...(text ? matches(text, 20) : []).map((i) => el("option", { value: view.map.ids[i] })));
  // A suggestion chosen from the list arrives without a key press.
  if (event.inputType === "insertReplacementText" || !(event instanceof InputEvent)) if (view.map.place.has(text)) search(event);
}

function search(event) {
  event.preventDefault();
  const text = $("search").value.trim();
  const [node] = text ? matches(text, 1) : [];
  if (node !== undefined) choose(node, true);
  $("found").textContent = !text || view.map.ids[node] === text ? ""
    : node === undefined ? `No node “${short(text)}” on the map.` : `First id that contains “${short(text)}”.`;
}

// ------------------------------------------------------------------------------------------------ selection

function select(nodes) {
  state.selection = nodes.filter((node) => node !== undefined).sort((a, b) => a - b);
  showSelection();
}

function showSelection() {
  const { selection } = state;
  $("selection").dataset.count = selection.length;
  if (!selection.length) {
    renew($("selection"), el("h3", {}, "Selection"),
      el("p", { class: "quiet" }, "Choose Box or Lasso and drag over the map. Hold Shift to add to the selection."));
    return;
  }
  const button = (label, id, act) => el("button", { type: "button", id, onclick: act }, label);
  renew($("selection"),
    el("h3", {}, `${count(selection.length)} ${selection.length === 1 ? "node" : "nodes"} selected`),
    composition(selection),
    el("div", { class: "actions" }, button("Download ids (CSV)", "download", download), button("Copy ids", "copy", copy),
      button("Clear", "clear", () => { select([]); drawMap(); })));
}

function composition(selection) {
  const { columns } = view.map;
  const column = chosenColumn()?.kind === "category" ? chosenColumn() : columns.find((each) => each.kind === "category");
  if (!column) return "";
  const counts = new Map();
  for (const node of selection) counts.set(column.values[node], (counts.get(column.values[node]) ?? 0) + 1);
  const rows = [...counts].sort((a, b) => b[1] - a[1]);
  const colour = (level) => (column === chosenColumn() ? view.colours.get(level) : null) ?? css("--accent");
  const name = (level) => column.levels[level] ?? MISSING;
  const list = rows.slice(0, 10).map(([level, number]) => el("li", { class: "row" },
    el("span", { class: "swatch", style: `background:${colour(level)}` }), el("span", { class: "name", title: name(level) }, name(level)),
    el("span", { class: "number" }, `${count(number)} · ${percent(number / selection.length)}%`),
    el("span", { class: "share" }, el("i", { style: `width:${(100 * number) / selection.length}%;background:${colour(level)}` }))));
  return el("div", {}, el("h4", {}, column.name), el("ul", { class: "rows", id: "composition" }, list),
    rows.length > 10 ? el("p", { class: "quiet" }, `and ${rows.length - 10} more`) : null);
}

function csv(nodes) {
  const { ids, columns } = view.map;
  const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const value = (column, i) => (column.kind === "category" ? column.levels[column.values[i]] ?? "" : String(column.values[i] ?? ""));
  const lines = [["id", ...columns.map((column) => column.name)], ...nodes.map((i) => [ids[i], ...columns.map((column) => value(column, i))])];
  return lines.map((line) => `${line.map(quoted).join(",")}\n`).join("");
}

function download() {
  const file = new Blob([csv(state.selection)], { type: "text/csv" });
  const link = el("a", { href: URL.createObjectURL(file), download: `${payload.runs[state.run].name}-selection.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function copy() {
  return copyText($("copy"), state.selection.map((node) => view.map.ids[node]).join("\n"));
}
