// The map of the embedding: points by WebGL, colours, search, the chosen node with its neighbours, selections.

const MOST_LEVELS = 20;
const MOST_POINTS_SVG = 5000;
const MOST_ATTRIBUTES = 12; // in the tip beside the pointer; the panel shows all
const MISSING = "(missing)";

// The element outlives a change of run: each new one would take three of the browser's few WebGL contexts.
const view = {
  map: null, groups: [], colours: new Map(), home: null, tip: el("div", { id: "tip", hidden: "" }),
  div: el("div", { id: "map", role: "group", "aria-label": "Map of the embedding. Search for a node by its id to read its neighbours." }),
};

function mapSection(run) {
  view.map = run.map;
  if (!view.map) return null;
  prepare(view.map);
  const { columns, nodes, ids, note, kind } = view.map;
  const colourable = columns.filter((column) => column.colour !== false);
  if (!colourable.some((column) => column.name === state.column)) state.column = colourable[0]?.name ?? "";
  const modes = [["pan", "Move"], ["select", "Box"], ["lasso", "Lasso"]];
  const button = (label, act, more = {}) => el("button", { type: "button", onclick: act, ...more }, label);
  return section("embedding", "Map of the embedding",
    el("p", { class: "quiet" }, note || `${kind} of ${count(ids.length)} embeddings`,
      ids.length < nodes ? `. The map shows ${count(ids.length)} of ${count(nodes)} nodes.` : ""),
    state.webgl ? null : el("p", { class: "notice", id: "no-webgl" },
      `This browser has no WebGL: the map shows ${count(Math.min(MOST_POINTS_SVG, ids.length))} of ${count(ids.length)} points, drawn more slowly.`),
    el("div", { class: "tools" },
      colourable.length ? el("label", {}, "Colour by", el("select", { id: "colour-by", onchange: (event) => recolour(event.target.value) },
        colourable.map((column) => el("option", { value: column.name, selected: column.name === state.column ? "" : null }, column.name)))) : null,
      el("form", { role: "search", onsubmit: search }, el("label", {}, "Node", el("input", {
        id: "search", type: "search", list: "suggestions", placeholder: "id, then Enter", autocomplete: "off",
        spellcheck: "false", oninput: suggest })),
      el("datalist", { id: "suggestions" })),
      el("div", { class: "segments", role: "group", "aria-label": "What dragging does", id: "modes" },
        modes.map(([mode, label]) => button(label, () => setMode(mode), { "data-mode": mode, "aria-pressed": String(mode === state.mode) }))),
      el("div", { class: "segments", role: "group", "aria-label": "View" },
        button("+", () => zoom(0.6), { "aria-label": "Zoom in" }), button("−", () => zoom(1 / 0.6), { "aria-label": "Zoom out" }),
        button("Whole map", () => moveTo(view.home.x, view.home.y), { id: "reset" }), button("Picture", picture, { title: "Save the map as PNG" })),
      el("output", { id: "found", class: "quiet", role: "status" })),
    el("div", { class: "map-grid" }, el("div", { class: "plot-box" }, view.div, view.tip),
      el("div", { class: "side" }, el("div", { id: "node", "aria-live": "polite" }), el("div", { id: "selection", "aria-live": "polite" }))),
    el("p", { class: "quiet" }, "Click into the map, then scroll to zoom. In the legend a click hides a group, a double click shows it alone."));
}

function prepare(map) {
  if (map.place) return;
  map.place = new Map(map.ids.map((id, i) => [id, i]));
  map.order = mixed(map.ids.length); // graphs often come sorted by class, and what is drawn last lies on top
  if (!state.webgl) map.order = map.order.slice(0, MOST_POINTS_SVG);
}

function mixed(n) {
  const order = Array.from({ length: n }, (_, i) => i);
  let seed = 1;
  for (let i = n - 1; i > 0; i--) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((seed / 2 ** 32) * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

const chosenColumn = () => view.map.columns.find((column) => column.name === state.column);

function shown(column, node) {
  const value = column.values[node];
  if (column.kind === "category") return column.levels[value] ?? MISSING;
  return value === null ? MISSING : plain(value);
}

// What is drawn as one trace: { name, nodes, colour, levels } with one colour or, for numbers, one per node.
function groupsOf(map, column) {
  if (!column) return [{ name: "nodes", nodes: map.order, colour: colourOf(0) }];
  const none = map.order.filter((i) => (column.kind === "category" ? !(column.values[i] >= 0) : column.values[i] === null));
  const groups = none.length ? [{ name: MISSING, nodes: none, colour: css("--none"), rank: 1e6, levels: [-1] }] : []; // first: beneath the others
  return groups.concat(column.kind === "category" ? levelsOf(map, column) : numbersOf(map, column));
}

function levelsOf(map, column) {
  const members = column.levels.map(() => []);
  for (const i of map.order) members[column.values[i]]?.push(i);
  const byCount = members.map((_, level) => level).filter((level) => members[level].length).sort((a, b) => members[b].length - members[a].length);
  const many = byCount.length > MOST_LEVELS;
  const kept = many ? byCount.slice(0, MOST_LEVELS - 1) : byCount;
  const other = many ? byCount.slice(MOST_LEVELS - 1) : [];
  // Frequent levels are drawn first, so that rare ones stay visible; the legend keeps the order of the levels.
  const groups = kept.map((level, place) => ({
    name: column.levels[level], nodes: members[level], colour: colourOf(many ? place : level), rank: many ? place : level,
    levels: [level] }));
  const rest = { name: `(${count(other.length)} others)`, nodes: other.flatMap((level) => members[level]), colour: css("--soft"), rank: 1e5, levels: other };
  return other.length ? [rest, ...groups] : groups;
}

function numbersOf(map, column) {
  const nodes = map.order.filter((i) => column.values[i] !== null);
  let least = Infinity, most = -Infinity;
  for (const i of nodes) { least = Math.min(least, column.values[i]); most = Math.max(most, column.values[i]); }
  const log = column.log && least >= 0 && most > 0;
  const shift = log && least < 1e-12 ? 1 : 0; // zeros: log(1 + value)
  const scale = (value) => (log ? Math.log10(value + shift) : value);
  const round = [0, 1, 2, 3, 5, 10, 20, 30, 50].concat(...[2, 3, 4, 5, 6, 7, 8].map((power) => [10 ** power, 3 * 10 ** power]));
  const inside = round.filter((value) => value + shift > 0 && value >= least && value <= most);
  const ticks = inside.length > 1 ? inside : [least, most];
  return nodes.length ? [{
    name: column.name, nodes, colours: Float32Array.from(nodes, (i) => scale(column.values[i])),
    ticks: log ? { tickvals: ticks.map(scale), ticktext: ticks.map((value) => (Number.isInteger(value) ? count(value) : plain(value))) } : {},
  }] : [];
}

function trace(group, size, narrow, chosen) {
  const { map } = view;
  const marker = { size, opacity: map.ids.length > 20000 ? 0.75 : 0.85, line: { width: 0 }, color: group.colour };
  if (group.colours) {
    Object.assign(marker, { color: group.colours, showscale: true, colorscale: numberScale(), colorbar: {
      title: { text: safe(group.name), side: narrow ? "top" : "right" }, thickness: 12, outlinewidth: 0, len: narrow ? 0.9 : 0.6, ...group.ticks,
      orientation: narrow ? "h" : "v", ...(narrow ? { y: -0.02, yanchor: "top" } : {}), tickfont: { color: css("--ink") } } });
  }
  return {
    type: state.webgl ? "scattergl" : "scatter", mode: "markers", hoverinfo: "none", name: `${safe(group.name, 26)}  ${count(group.nodes.length)}`,
    x: Float32Array.from(group.nodes, (i) => map.x[i]), y: Float32Array.from(group.nodes, (i) => map.y[i]),
    marker, selected: { marker: { opacity: 1 } }, unselected: { marker: { opacity: 0.12 } },
    showlegend: !group.colours, legendrank: 1000 + (group.rank ?? 0),
    selectedpoints: chosen && group.nodes.flatMap((node, i) => (chosen.has(node) ? [i] : [])),
  };
}

// Ends that would vanish on the background are left out: yellow on white, dark blue on black.
function numberScale() {
  const steps = root.dataset.theme === "dark" ? ["#8a4fd8", "#cc4778", "#f89540", "#f0f921"] : ["#0d0887", "#7e03a8", "#cc4778", "#ee8a3a"];
  return steps.map((colour, i) => [i / 3, colour]);
}

function drawMap() {
  const { map } = view;
  const narrow = view.div.clientWidth < 640;
  view.groups = groupsOf(map, chosenColumn());
  view.colours = new Map(view.groups.flatMap((group) => (group.levels ?? []).map((level) => [level, group.colour])));
  const home = (view.home ??= { x: extent(map.x), y: extent(map.y), fresh: true });
  const kept = home.fresh ? null : view.div.layout;
  home.fresh = false;
  const chosen = state.selection.length ? new Set(state.selection) : null;
  const size = Math.max(2.5, Math.min(10, 16 - 2.7 * Math.log10(map.order.length)));
  const bare = { showgrid: false, zeroline: false, showticklabels: false, ticks: "", title: { text: "" } };
  return Plotly.react(view.div, view.groups.map((group) => trace(group, size, narrow, chosen)), withLooks({
    margin: { l: 8, r: 8, t: 8, b: 8 }, hovermode: "closest", hoverdistance: 12, dragmode: state.mode ?? false,
    showlegend: view.groups.length > 1 || !view.groups[0]?.colours,
    xaxis: { ...bare, range: kept ? [...kept.xaxis.range] : home.x },
    yaxis: { ...bare, range: kept ? [...kept.yaxis.range] : home.y, scaleanchor: "x" },
    legend: { itemsizing: "constant", font: { color: css("--ink") }, uirevision: `${state.run} ${state.column}`, bgcolor: "rgba(0,0,0,0)",
      ...(narrow ? { orientation: "h", x: 0, y: -0.02, yanchor: "top" } : { x: 1.01, y: 1 }) },
    selections: chosen ? view.div.layout?.selections ?? [] : [],
    newselection: { line: { color: css("--ink"), width: 1.5, dash: "dot" } }, activeselection: { fillcolor: "rgba(0,0,0,0)" },
    ...marks(),
  }), { ...QUIET, scrollZoom: true, doubleClick: false });
}

function extent(values) {
  let least = Infinity, most = -Infinity;
  for (const value of values) { least = Math.min(least, value); most = Math.max(most, value); }
  const room = 0.04 * (most - least) || 1;
  return [least - room, most + room];
}

// The chosen node and its neighbours stand over the canvas: moving their marks does not draw the points anew. The boxes
// are annotations, since with shapes of a size in pixels Plotly 4 takes the corners of a selection for pixels too.
function marks() {
  if (state.node === null) return { shapes: [], annotations: [] };
  const { x, y, ids } = view.map;
  const box = (i, size, colour, borderwidth) => ({ x: x[i], y: y[i], text: "\u00a0", showarrow: false, width: size, height: size,
    borderpad: 0, borderwidth, bordercolor: colour });
  const near = neighbours(state.node).map(({ node }) => node);
  const label = { x: x[state.node], y: y[state.node], text: safe(ids[state.node]), showarrow: false, yshift: 24, borderpad: 3,
    bgcolor: css("--panel"), bordercolor: css("--line"), font: { color: css("--ink") } };
  return {
    shapes: near.map((i) => ({ type: "line", x0: x[state.node], y0: y[state.node], x1: x[i], y1: y[i],
      line: { color: css("--soft"), width: 1 }, opacity: 0.6 })),
    annotations: [...near.map((i) => box(i, 11, css("--ink"), 1.5)), box(state.node, 18, css("--accent"), 3), label],
  };
}

function neighbours(node) {
  const { k, neighbours: near = [], similarity = [] } = view.map;
  const found = [];
  for (let j = node * k; j < (node + 1) * k; j++) if (near[j] >= 0) found.push({ node: near[j], cosine: similarity[j] });
  return found;
}

function moveTo(x, y) { return Plotly.relayout(view.div, { "xaxis.range": [...x], "yaxis.range": [...y], ...marks() }); }

function zoom(factor) {
  const { xaxis, yaxis } = view.div.layout;
  const scaled = ([a, b]) => [(a + b) / 2 - ((b - a) / 2) * factor, (a + b) / 2 + ((b - a) / 2) * factor];
  return moveTo(scaled(xaxis.range), scaled(yaxis.range));
}

function setMode(mode) {
  state.mode = state.mode === mode ? null : mode; // a second press leaves dragging to the page
  for (const each of $("modes").children) each.setAttribute("aria-pressed", String(each.dataset.mode === state.mode));
  Plotly.relayout(view.div, { dragmode: state.mode ?? false });
}

async function recolour(name) {
  state.column = name;
  await drawMap();
  showNode();
  showSelection();
}

function picture() {
  const { clientWidth: width, clientHeight: height } = view.div;
  Plotly.downloadImage(view.div, { format: "png", width, height, scale: 2, filename: `${payload.runs[state.run].name}-map` });
}

// ------------------------------------------------------------------------------------------------ talking with the map

const nodeAt = (point) => view.groups[point.curveNumber]?.nodes[point.pointNumber];

function listenToMap() {
  if (!payload.runs.some((run) => run.map)) return;
  Plotly.newPlot(view.div, [], {}, QUIET); // gives the element its events
  view.div.on("plotly_hover", hover);
  view.div.on("plotly_unhover", () => { hovered = null; view.tip.hidden = true; });
  view.div.on("plotly_click", ({ points }) => choose(nodeAt(points[0])));
  view.div.on("plotly_selected", (event) => { if (event) select(event.points.map(nodeAt)); });
  view.div.on("plotly_deselect", () => select([]));
  view.div.on("plotly_doubleclick", () => { if (state.mode === "pan") moveTo(view.home.x, view.home.y); });
  // The wheel scrolls the page until the map is taken in hand, and again once the pointer has left it.
  let held = false;
  view.div.addEventListener("pointerdown", () => { held = true; });
  view.div.addEventListener("pointerleave", ({ clientX: x, clientY: y }) => {
    const { left, right, top, bottom } = view.div.getBoundingClientRect();
    held = x > left && x < right && y > top && y < bottom; // Plotly lays a cover over the page while a button is down
  });
  view.div.addEventListener("wheel", (event) => { if (!held && !event.ctrlKey) event.stopPropagation(); }, { capture: true });
  matchMedia("(max-width: 700px)").addEventListener("change", () => { if (view.map) drawMap(); });
}

let hovered = null;
function hover({ points, event }) {
  const waiting = hovered !== null;
  hovered = { node: nodeAt(points[0]), event };
  if (!waiting) requestAnimationFrame(showTip); // at most once a frame
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
  // Centred, and near enough to tell the neighbours apart, but never farther away than the user already is.
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

// New content for a panel; who was in it with the keyboard stays there.
function renew(panel, ...children) {
  const held = panel.contains(document.activeElement);
  panel.replaceChildren(...children);
  panel.tabIndex = -1;
  if (held) panel.focus({ preventScroll: true });
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
    el("h4", {}, "Nearest neighbours, by cosine"),
    el("ol", { class: "rows", id: "neighbours" }, neighbours(node).map(({ node: other, cosine }) => el("li", {},
      el("button", { type: "button", "data-node": view.map.ids[other], onclick: () => choose(other, true) },
        swatch(other), el("span", { class: "name" }, view.map.ids[other], column ? el("small", {}, `  ${shown(column, other)}`) : null),
        el("span", { class: "number" }, decimal(cosine)))))));
}

// ------------------------------------------------------------------------------------------------ search

function matches(text, most) {
  const { ids, place } = view.map;
  const found = place.has(text) ? [place.get(text)] : [];
  const low = text.toLowerCase();
  const inside = []; // after those that begin so
  for (let i = 0; i < ids.length && found.length < most; i++) {
    const place = ids[i] === text ? -1 : ids[i].toLowerCase().indexOf(low);
    if (place === 0) found.push(i);
    else if (place > 0 && inside.length < most) inside.push(i);
  }
  return found.concat(inside).slice(0, most);
}

function suggest(event) {
  const text = event.target.value.trim();
  $("suggestions").replaceChildren(...(text ? matches(text, 20) : []).map((i) => el("option", { value: view.map.ids[i] })));
  // A suggestion taken from the list comes without a key press.
  if (event.inputType === "insertReplacementText" || !(event instanceof InputEvent)) if (view.map.place.has(text)) search(event);
}

function search(event) {
  event.preventDefault();
  const text = $("search").value.trim();
  const [node] = text ? matches(text, 1) : [];
  if (node !== undefined) choose(node, true);
  $("found").textContent = !text || view.map.ids[node] === text ? ""
    : node === undefined ? `No node “${short(text)}” on the map.` : `The first id with “${short(text)}”.`;
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
      el("p", { class: "quiet" }, "Choose Box or Lasso and drag over the map; with Shift to add."));
    return;
  }
  const button = (label, id, act) => el("button", { type: "button", id, onclick: act }, label);
  renew($("selection"),
    el("h3", {}, `${count(selection.length)} ${selection.length === 1 ? "node" : "nodes"} selected`),
    makeUp(selection),
    el("div", { class: "actions" }, button("Download ids (CSV)", "download", download), button("Copy ids", "copy", copy),
      button("Clear", "clear", () => { select([]); drawMap(); })));
}

function makeUp(selection) {
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
  return el("div", {}, el("h4", {}, column.name), el("ul", { class: "rows", id: "make-up" }, list),
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

async function copy() {
  const text = state.selection.map((node) => view.map.ids[node]).join("\n");
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not allowed for files in some browsers: the old way
    const area = el("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  $("copy").textContent = "Copied";
  setTimeout(() => { if ($("copy")) $("copy").textContent = "Copy ids"; }, 1500);
}
