// The map of the embedding: its section, its state, and the buttons above it.
// map_groups.js has the colours, map_canvas.js the picture, map_gestures.js the pointer, map_panels.js the panels.

// One element for all runs, so that it keeps its listeners.
const view = {
  map: null, drivers: null, home: null, camera: null, // see map_canvas.js
  groups: [], colours: new Map(), hidden: new Set(), hiddenFor: "", visible: new Uint8Array(0), // see map_groups.js
  chosen: null, // 1 for each selected node; null without a selection
  outlines: [], outline: null, pointed: null, image: null, milliseconds: 0,
  div: el("div", { id: "map", role: "group", "aria-label": "Map of the embedding. Search for a node by its id to list its neighbours." }),
  canvas: el("canvas", { tabindex: 0, "aria-label": "Map. Arrow keys move it, plus and minus zoom, Home shows all of it." }),
  legend: el("div", { class: "map-legend" }), tip: el("div", { id: "tip", hidden: "" }),
};
view.div.append(el("div", { class: "map-canvas" }, view.canvas), view.legend);

// What the map shows, for tests and for a browser's console.
view.div.plot = {
  get groups() { return view.groups; },
  get hidden() { return view.hidden; },
  get chosen() { return state.selection; },
  get milliseconds() { return view.milliseconds; },
  get marked() { return state.node === null ? [] : [...neighbours(state.node).map(({ node }) => node), state.node]; },
  get range() {
    const { width, height } = sizeOf(view.canvas), [left, top] = toMap(0, 0), [right, bottom] = toMap(width, height);
    return { x: [left, right], y: [bottom, top] };
  },
  screen(x, y) {
    const box = view.canvas.getBoundingClientRect(), [left, top] = toScreen(x, y);
    return [box.left + left, box.top + top];
  },
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
        button("+", () => zoomBy(1 / 0.6), { "aria-label": "Zoom in" }), button("−", () => zoomBy(0.6), { "aria-label": "Zoom out" }),
        button("Whole map", goHome, { id: "reset" }), button("Save image", saveImage, { title: "Save the map as PNG" })),
      el("output", { id: "found", class: "quiet", role: "status" })),
    el("div", { class: "map-grid" }, el("div", { class: "plot-box" }, view.div, view.tip),
      el("div", { class: "side" }, el("div", { id: "node", "aria-live": "polite" }), el("div", { id: "selection", "aria-live": "polite" }))),
    el("p", { class: "quiet screen" }, "Click the map, then scroll to zoom. In the legend, click a group to hide it, or double-click to show it alone."));
}

function prepare(map) {
  if (map.place) return;
  map.x = Float64Array.from(map.x);
  map.y = Float64Array.from(map.y);
  map.place = new Map(map.ids.map((id, i) => [id, i]));
  map.order = shuffled(map.ids.length); // nodes are often sorted by class, and the last points drawn cover the others
  map.grid = gridOf(map.x, map.y);
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

// Group, colour and draw the map at once.
function drawMap() {
  const { map } = view;
  if (!view.home) {
    view.home = homeOf(map);
    view.camera = { x: view.home.x, y: view.home.y, zoom: 1 };
  }
  view.groups = groupsOf(map, chosenColumn());
  view.colours = new Map(view.groups.flatMap((group) => (group.levels ?? []).map((level) => [level, group.colour])));
  const grouping = `${state.run} ${state.column}`; // another grouping shows all its groups
  if (view.hiddenFor !== grouping) Object.assign(view, { hidden: new Set(), hiddenFor: grouping });
  view.canvas.dataset.mode = state.mode ?? "";
  showGroups();
  paint();
}

function neighbours(node) {
  const { k, neighbours: near = [], similarity = [] } = view.map;
  const list = [];
  for (let j = node * k; j < (node + 1) * k; j++) if (near[j] >= 0) list.push({ node: near[j], cosine: similarity[j] });
  return list;
}

// ------------------------------------------------------------------------------------------------ moving and saving

// Move the camera. It stays over the map, and between twice its size and a thousandth of it.
function moveTo(x, y, zoom = view.camera.zoom) {
  const { home } = view;
  view.camera = {
    x: clamp(x, home.x - home.width / 2, home.x + home.width / 2), y: clamp(y, home.y - home.height / 2, home.y + home.height / 2),
    zoom: clamp(zoom, 0.5, 1000),
  };
  repaint();
}

function goHome() { moveTo(view.home.x, view.home.y, 1); }

// Zoom about a place on the canvas, which stays where it is; by default about the centre.
function zoomBy(factor, left = view.canvas.clientWidth / 2, top = view.canvas.clientHeight / 2) {
  const { x, y, zoom } = view.camera;
  const [fixedX, fixedY] = toMap(left, top);
  const share = zoom / clamp(zoom * factor, 0.5, 1000);
  moveTo(fixedX + (x - fixedX) * share, fixedY + (y - fixedY) * share, zoom / share);
}

function setMode(mode) {
  state.mode = state.mode === mode ? null : mode; // a second press lets dragging scroll the page
  for (const each of $("modes").children) each.setAttribute("aria-pressed", String(each.dataset.mode === state.mode));
  view.canvas.dataset.mode = state.mode ?? "";
}

function recolour(name) {
  state.column = name;
  drawMap();
  showNode();
  showSelection();
}

// The map and its legend at twice their size on the screen. The legend is copied from the page, place by place.
function saveImage() {
  const box = view.div.getBoundingClientRect(), ratio = 2;
  const canvas = el("canvas"), context = canvas.getContext("2d");
  Object.assign(canvas, { width: Math.round(ratio * box.width), height: Math.round(ratio * box.height) });
  context.fillStyle = css("--panel");
  context.fillRect(0, 0, canvas.width, canvas.height);
  const map = el("canvas"), place = view.canvas.getBoundingClientRect();
  paintOnto(map, sizeOf(view.canvas), ratio);
  context.drawImage(map, Math.round(ratio * (place.left - box.left)), Math.round(ratio * (place.top - box.top)));
  context.setTransform(ratio, 0, 0, ratio, -ratio * box.left, -ratio * box.top);
  copyLegend(context);
  canvas.toBlob((blob) => saveFile(blob, `${payload.runs[state.run].name}-map.png`));
}

function copyLegend(context) {
  context.textBaseline = "middle";
  for (const part of view.legend.querySelectorAll(".swatch, .scale, .legend-name, .legend-count, .scale-tick")) {
    const { left, right, top, bottom, width, height } = part.getBoundingClientRect();
    const look = getComputedStyle(part);
    context.globalAlpha = part.closest("[aria-pressed=false]") ? 0.4 : 1;
    if (part.classList.contains("scale")) {
      const upright = height > width;
      const gradient = upright ? context.createLinearGradient(0, bottom, 0, top) : context.createLinearGradient(left, 0, right, 0);
      numberColours().forEach((colour, i, all) => gradient.addColorStop(i / (all.length - 1), colour));
      context.fillStyle = gradient;
      context.fillRect(left, top, width, height);
    } else if (part.classList.contains("swatch")) {
      context.beginPath();
      context.arc((left + right) / 2, (top + bottom) / 2, width / 2, 0, 2 * Math.PI);
      context.fillStyle = look.backgroundColor;
      context.fill();
    } else {
      Object.assign(context, { font: `${look.fontWeight} ${look.fontSize} ${look.fontFamily}`, fillStyle: look.color });
      context.fillText(part.textContent, left, (top + bottom) / 2);
    }
  }
}
