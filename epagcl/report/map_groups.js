// The colours of the map: nodes grouped by the levels of a column, or shaded by its numbers.

const MOST_LEVELS = 20;
const SHADES = 64; // colours of a scale for numbers
const MISSING = "(missing)";

const chosenColumn = () => view.map.columns.find((column) => column.name === state.column);

function shown(column, node) {
  const value = column.values[node];
  if (column.kind === "category") return column.levels[value] ?? MISSING;
  return value === null ? MISSING : plain(value);
}

// Groups in the order in which they are drawn: { name, nodes, colour, rank, levels }. `rank` orders the legend.
// A group of numbers has no colour but { values, at, ticks }: the scaled value of each node, and its place on the scale.
function groupsOf(map, column) {
  if (!column) return [{ name: "nodes", nodes: map.order, colour: colourOf(0), rank: 0 }];
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
  if (!nodes.length) return [];
  const [least, most] = extent(column.values);
  const log = column.log && least >= 0 && most > 0;
  const shift = log && least < 1e-12 ? 1 : 0; // zeros: log(1 + value)
  const to = (value) => (log ? Math.log10(value + shift) : value);
  const at = (value) => (most > least ? (to(value) - to(least)) / (to(most) - to(least)) : 0.5);
  const ticks = (log ? logScaleTicks(least, most) : roundTicks(least, most, 5)).map(({ value, text }) => ({ at: at(value), text }));
  return [{
    name: column.name, nodes, values: Float32Array.from(nodes, (i) => to(column.values[i])),
    at: Float32Array.from(nodes, (i) => at(column.values[i])),
    ticks: ticks.length > 1 || least === most ? ticks : [least, most].map((value) => ({ at: at(value), text: readable(value) })),
  }];
}

// Round values of a logarithmic scale, which may begin at 0.
function logScaleTicks(least, most) {
  const decades = Math.log10(Math.max(most, 1) / Math.max(least, 1));
  const factors = decades < 1.2 ? [1, 2, 3, 5] : decades < 3 ? [1, 3] : [1];
  const round = [0, ...[-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) => factors.map((factor) => factor * 10 ** power))];
  const shifted = least < 1e-12; // log(1 + value) has no room below 1
  const fits = (value) => value >= least && value <= most && (!shifted || value === 0 || value >= 1);
  return round.filter(fits).map((value) => ({ value, text: readable(value) }));
}

// Colours with little contrast to the background are left out: yellow on white, dark blue on black.
function numberColours() {
  return root.dataset.theme === "dark" ? ["#8a4fd8", "#cc4778", "#f89540", "#f0f921"] : ["#0d0887", "#7e03a8", "#cc4778", "#ee8a3a"];
}

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

// The colours of a group as [red, green, blue]: one, or the steps of the scale for numbers.
function shadesOf(group) {
  if (!group.values) return [rgb(group.colour)];
  const stops = numberColours().map(rgb);
  return Array.from({ length: SHADES }, (_, k) => {
    const at = (k / (SHADES - 1)) * (stops.length - 1), below = Math.min(Math.floor(at), stops.length - 2);
    return stops[below].map((channel, c) => Math.round(channel + (at - below) * (stops[below + 1][c] - channel)));
  });
}

// ------------------------------------------------------------------------------------------------ legend

function drawLegend() {
  const listed = view.groups.filter((group) => !group.values).sort((a, b) => a.rank - b.rank);
  const numbers = view.groups.find((group) => group.values);
  const focused = [...view.legend.querySelectorAll("button")].indexOf(document.activeElement);
  view.legend.replaceChildren(...[
    listed.length ? el("ul", { "aria-label": "Groups on the map" }, listed.map((group) => el("li", {}, el("button", {
      type: "button", title: group.name, "aria-pressed": String(!view.hidden.has(group.rank)),
      onclick: () => toggle(group), ondblclick: () => isolate(group) },
    swatch(group.colour), el("span", { class: "legend-name" }, short(group.name, 26)),
    el("span", { class: "legend-count" }, count(group.nodes.length)))))) : null,
    numbers ? colourBar(numbers) : null,
  ].filter(Boolean));
  if (focused >= 0) view.legend.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
}

function colourBar({ name, ticks }) {
  return el("div", { class: "colorbar" }, el("p", { class: "legend-name" }, short(name)),
    el("div", { class: "scale", style: { "--colours": numberColours().join(", ") } },
      ticks.map(({ at, text }) => el("span", { class: "scale-tick", style: { "--at": at } }, text))));
}

function toggle(group) {
  if (!view.hidden.delete(group.rank)) view.hidden.add(group.rank);
  showGroups();
}

// Show a group alone; if it already is, show all. The two clicks of a double-click have undone each other.
function isolate(group) {
  const others = view.groups.filter((each) => !each.values && each !== group).map((each) => each.rank);
  const alone = !view.hidden.has(group.rank) && others.every((rank) => view.hidden.has(rank));
  view.hidden = new Set(alone ? [] : others);
  showGroups();
}

function showGroups() {
  view.visible = new Uint8Array(view.map.ids.length);
  for (const group of view.groups) if (!view.hidden.has(group.rank)) for (const node of group.nodes) view.visible[node] = 1;
  drawLegend();
  repaint();
}
