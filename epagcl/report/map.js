// The map of the embedding: points drawn by WebGL, colours, the marks of the chosen node; map_panels.js has the panels.

const MOST_LEVELS = 20;
const MOST_POINTS_SVG = 5000;
const MOST_ATTRIBUTES = 12; // in the tooltip; the panel shows all
const MISSING = "(missing)";

// One element for all runs: each new element would use three of the few WebGL contexts that browsers allow.
const view = {
  map: null, drivers: null, groups: [], colours: new Map(), home: null, tip: el("div", { id: "tip", hidden: "" }),
  div: el("div", { id: "map", role: "group", "aria-label": "Map of the embedding. Search for a node by its id to list its neighbours." }),
};

function mapSection(run) {
  view.map = run.map;
  view.drivers = run.drivers;
  if (!view.map) return null;
  prepare(view.map);
  const { columns, nodes, ids, note, kind } = view.map;
  const colourable = columns.filter((column) => column.colour !== false);
  if (!colourable.some((column) => column.name === state.column)) state.column = colourable[0]?.name ?? "";
  const modes = [["pan", "Move"], ["select", "Box"], ["lasso", "Lasso"]];
  const button = (label, act, more = {}) => el("button", { type: "button", onclick: act, ...more }, label);
  return section("embedding", "Map of the embedding",
    el("p", { class: "quiet" }, note || `${kind} of ${count(ids.length)} embeddings.`,
      ids.length < nodes ? ` The map shows ${count(ids.length)} of ${count(nodes)} nodes.` : ""),
    state.webgl ? null : el("p", { class: "notice", id: "no-webgl" },
      `This browser has no WebGL. The map shows ${count(Math.min(MOST_POINTS_SVG, ids.length))} of ${count(ids.length)} points and responds more slowly.`),
    el("div", { class: "tools" },
      colourable.length ? el("label", {}, "Colour by", el("select", { id: "colour-by", onchange: (event) => recolour(event.target.value) },
        colourable.map((column) => el("option", { value: column.name, selected: column.name === state.column ? "" : null }, column.name)))) : null,
      el("form", { role: "search", onsubmit: search }, el("label", {}, "Node", el("input", {
        id: "search", type: "search", list: "suggestions", placeholder: "id, then Enter", autocomplete: "off",
        spellcheck: "false", oninput: suggest })),
      el("datalist", { id: "suggestions" })),
      el("div", { class: "segments", role: "group", "aria-label": "Drag mode", id: "modes" },
        modes.map(([mode, label]) => button(label, () => setMode(mode), { "data-mode": mode, "aria-pressed": String(mode === state.mode) }))),
      el("div", { class: "segments", role: "group", "aria-label": "View" },
        button("+", () => zoom(0.6), { "aria-label": "Zoom in" }), button("−", () => zoom(1 / 0.6), { "aria-label": "Zoom out" }),
        button("Whole map", () => moveTo(view.home.x, view.home.y), { id: "reset" }), button("Save image", saveImage, { title: "Save the map as PNG" })),
      el("output", { id: "found", class: "quiet", role: "status" })),
    el("div", { class: "map-grid" }, el("div", { class: "plot-box" }, view.div, view.tip),
      el("div", { class: "side" }, el("div", { id: "node", "aria-live": "polite" }), el("div", { id: "selection", "aria-live": "polite" }))),
    el("p", { class: "quiet screen" }, "Click the map, then scroll to zoom. In the legend, click a group to hide it, or double-click to show it alone."));
}

function prepare(map) {
  if (map.place) return;
  map.place = new Map(map.ids.map((id, i) => [id, i]));
  map.order = shuffled(map.ids.length); // nodes are often sorted by class, and the last points drawn cover the others
  if (!state.webgl) map.order = map.order.slice(0, MOST_POINTS_SVG);
}

function shuffled(n) {
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

// The traces of the map: { name, nodes, colour, levels } with one colour, or for numbers `colours` with one per node.
function groupsOf(map, column) {
  if (!column) return [{ name: "nodes", nodes: map.order, colour: colourOf(0) }];
  const missing = map.order.filter((i) => (column.kind === "category" ? !(column.values[i] >= 0) : column.values[i] === null));
  const groups = missing.length ? [{ name: MISSING, nodes: missing, colour: css("--none"), rank: 1e6, levels: [-1] }] : []; // first: below the others
  return groups.concat(column.kind === "category" ? levelsOf(map, column) : numbersOf(map, column));
}

function levelsOf(map, column) {
  const members = column.levels.map(() => []);
  for (const i of map.order) members[column.values[i]]?.push(i);
  const byCount = members.map((_, level) => level).filter((level) => members[level].length).sort((a, b) => members[b].length - members[a].length);
  const many = byCount.length > MOST_LEVELS;
  const frequent = many ? byCount.slice(0, MOST_LEVELS - 1) : byCount;
  const other = many ? byCount.slice(MOST_LEVELS - 1) : [];
  // Frequent levels are drawn first, so that rare ones stay visible. The legend has the order of the levels.
  const groups = frequent.map((level, place) => ({
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

// Colours with little contrast to the background are left out: yellow on white, dark blue on black.
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
  const previous = home.fresh ? null : view.div.layout;
  home.fresh = false;
  const chosen = state.selection.length ? new Set(state.selection) : null;
  const size = Math.max(2.5, Math.min(10, 16 - 2.7 * Math.log10(map.order.length)));
  const bare = { showgrid: false, zeroline: false, showticklabels: false, ticks: "", title: { text: "" } };
  return Plotly.react(view.div, view.groups.map((group) => trace(group, size, narrow, chosen)), withLooks({
    margin: { l: 8, r: 8, t: 8, b: 8 }, hovermode: "closest", hoverdistance: 12, dragmode: state.mode ?? false,
    showlegend: view.groups.length > 1 || !view.groups[0]?.colours,
    xaxis: { ...bare, range: previous ? [...previous.xaxis.range] : home.x },
    yaxis: { ...bare, range: previous ? [...previous.yaxis.range] : home.y, scaleanchor: "x" },
    legend: { itemsizing: "constant", font: { color: css("--ink") }, uirevision: `${state.run} ${state.column}`, bgcolor: "rgba(0,0,0,0)",
      ...(narrow ? { orientation: "h", x: 0, y: -0.02, yanchor: "top" } : { x: 1.01, y: 1 }) },
    selections: chosen ? view.div.layout?.selections ?? [] : [],
    newselection: { line: { color: css("--ink"), width: 1.5, dash: "dot" } }, activeselection: { fillcolor: "rgba(0,0,0,0)" },
    ...marks(), ...sized(view.div),
  }), { ...QUIET, scrollZoom: true, doubleClick: false });
}

function extent(values) {
  let least = Infinity, most = -Infinity;
  for (const value of values) { least = Math.min(least, value); most = Math.max(most, value); }
  const margin = 0.04 * (most - least) || 1;
  return [least - margin, most + margin];
}

// The marks of the chosen node and its neighbours are above the canvas, so that moving them does not redraw the points.
// The boxes are annotations: with shapes sized in pixels, Plotly 4 reads the corners of a selection as pixels too.
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
  const list = [];
  for (let j = node * k; j < (node + 1) * k; j++) if (near[j] >= 0) list.push({ node: near[j], cosine: similarity[j] });
  return list;
}

function moveTo(x, y) { return Plotly.relayout(view.div, { "xaxis.range": [...x], "yaxis.range": [...y], ...marks() }); }

function zoom(factor) {
  const { xaxis, yaxis } = view.div.layout;
  const scaled = ([a, b]) => [(a + b) / 2 - ((b - a) / 2) * factor, (a + b) / 2 + ((b - a) / 2) * factor];
  return moveTo(scaled(xaxis.range), scaled(yaxis.range));
}

function setMode(mode) {
  state.mode = state.mode === mode ? null : mode; // a second press lets dragging scroll the page
  for (const each of $("modes").children) each.setAttribute("aria-pressed", String(each.dataset.mode === state.mode));
  Plotly.relayout(view.div, { dragmode: state.mode ?? false });
}

async function recolour(name) {
  state.column = name;
  await drawMap();
  showNode();
  showSelection();
}

function saveImage() {
  const { clientWidth: width, clientHeight: height } = view.div;
  Plotly.downloadImage(view.div, { format: "png", width, height, scale: 2, filename: `${payload.runs[state.run].name}-map` });
}
