// The panels beside the map: the chosen node with its neighbours, search, and the selection.

const MOST_ATTRIBUTES = 12; // in the tooltip; the panel shows all

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
  // A node from a list or a search is centred, and zoomed in on until its neighbours can be told apart; never out.
  if (move) moveTo(view.map.x[node], view.map.y[node], Math.max(view.camera.zoom, 2.5));
  else repaint();
}

function swatchOf(node) {
  const column = chosenColumn();
  return swatch(column?.kind === "category" ? view.colours.get(column.values[node]) : null);
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
      repaint();
    } }, "✕")),
    attributes(node),
    el("h4", {}, "Nearest neighbours (cosine similarity)"),
    el("ol", { class: "rows", id: "neighbours" }, neighbours(node).map(({ node: other, cosine }, place) => el("li", {},
      el("button", { type: "button", "data-node": view.map.ids[other], onclick: () => choose(other, true) },
        swatchOf(other), el("span", { class: "name" }, view.map.ids[other], column ? el("small", {}, `  ${shown(column, other)}`) : null,
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

function select(nodes, outlines = []) {
  state.selection = [...nodes].sort((a, b) => a - b);
  view.outlines = outlines;
  view.chosen = nodes.length ? new Uint8Array(view.map.ids.length) : null;
  for (const node of nodes) view.chosen[node] = 1;
  showSelection();
  repaint();
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
      button("Clear", "clear", () => select([]))));
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
    swatch(colour(level)), el("span", { class: "name", title: name(level) }, name(level)),
    el("span", { class: "number" }, `${count(number)} · ${percent(number / selection.length)}%`),
    el("span", { class: "share" }, el("i", { style: { width: `${(100 * number) / selection.length}%`, background: colour(level) } }))));
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
  saveFile(new Blob([csv(state.selection)], { type: "text/csv" }), `${payload.runs[state.run].name}-selection.csv`);
}

function copy() {
  return copyText($("copy"), state.selection.map((node) => view.map.ids[node]).join("\n"));
}
