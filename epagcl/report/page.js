// The report page: unpack the data, build the sections as text, then draw the plots.
// Users' text (ids, labels, column names) becomes text nodes; strings for Plotly pass through safe().
// The map and the sections are in map.js, map_panels.js and sections.js, which precede this file in the same script.

const root = document.documentElement;
const $ = (id) => document.getElementById(id);
const PALETTE = [
  "#4269d0", "#e8812f", "#3a9d4f", "#d64550", "#9a5fe0", "#98694c", "#e072b0", "#2a9fa8", "#bb9a0c", "#6b7fa3",
  "#1f8fd6", "#a8501a", "#7cb342", "#b0416f", "#7357d1", "#c79a78", "#c238c2", "#2fae97", "#7a7d1e", "#6f93ea",
];
const QUIET = { displayModeBar: false, displaylogo: false, responsive: true, showTips: false };

let payload;
const state = { run: 0, column: "", node: null, selection: [], mode: "pan", webgl: hasWebGL() };

async function main() {
  setTheme(stored() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  if (!("DecompressionStream" in window)) {
    throw new Error("this browser cannot decompress data (DecompressionStream is missing). Use a browser from 2023 or later.");
  }
  payload = JSON.parse(await unpack("payload"));
  state.mode = matchMedia("(pointer: coarse)").matches ? null : "pan"; // a finger on the map scrolls the page at first
  buildHead();
  build();
  $("loading").hidden = true;
  await frame(); // show the text before the large library is parsed
  const script = document.createElement("script");
  script.textContent = await unpack("plotly");
  document.head.append(script);
  listenToMap();
  await drawAll();
  root.dataset.ready = "yes";
}

const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));

async function unpack(id) {
  const text = $(id).textContent;
  $(id).remove();
  const bytes = Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

function hasWebGL() {
  const context = document.createElement("canvas").getContext("webgl");
  context?.getExtension("WEBGL_lose_context")?.loseContext(); // browsers allow few contexts, and the map needs three
  return Boolean(context);
}

// ------------------------------------------------------------------------------------------------ helpers

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// Shorten in the middle, since names often differ at their ends.
function short(text, most = 28) {
  const letters = text.length > most ? [...text] : []; // whole characters, also beyond 16 bits
  const tail = Math.floor(most * 0.4);
  return letters.length > most ? `${letters.slice(0, most - 1 - tail).join("")}…${letters.slice(-tail).join("")}` : text;
}
// Plotly interprets <b>, <a href> and entities in strings: users' text is shortened and escaped.
const safe = (text, most) => short(String(text), most).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const present = (values) => Boolean(values?.some((value) => value !== null));
const count = (value) => value?.toLocaleString("en") ?? "–";
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const percent = (value) => (value === null || value === undefined ? "–" : (100 * value).toFixed(1));
const decimal = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const plain = (value) => String(Number.isInteger(value) ? value : Number(value.toPrecision(4)));

function badge(verdict) {
  const mark = { good: "✓ ", fair: "~ ", poor: "✕ " }[verdict];
  return mark ? el("span", { class: `badge ${verdict}` }, mark + verdict) : null;
}

// Cells from column `numeric` on are right-aligned. A wide table scrolls in its box, also by keyboard.
function table(title, head, rows, numeric = 1, classOf = () => null) {
  const side = (i) => (i >= numeric ? "number" : null);
  return el("div", { class: "table", role: "region", tabindex: 0, "aria-label": title },
    el("table", {},
      el("thead", {}, el("tr", {}, head.map((text, i) => el("th", { scope: "col", class: side(i) }, text)))),
      el("tbody", {}, rows.map((row, r) => el("tr", { class: classOf(r) }, row.map((cell, i) => {
        if (cell instanceof Element && cell.tagName === "TD") return cell;
        return el(i ? "td" : "th", { class: side(i), scope: i ? null : "row" }, cell);
      }))))));
}

function section(id, title, ...children) {
  const inside = children.flat().filter(Boolean);
  return inside.length ? el("section", { id, "data-title": title }, el("h2", {}, title), inside) : null;
}

// ------------------------------------------------------------------------------------------------ head and theme

function buildHead() {
  document.title = payload.title;
  $("title").textContent = payload.title;
  $("created").textContent = `${payload.created.slice(0, 16).replace("T", " ")} UTC · epagcl ${payload.version}`;
  $("theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
    try { localStorage.setItem("epagcl-theme", root.dataset.theme); } catch { /* storage is disabled: the choice is not remembered */ }
    drawAll(true);
  });
  $("run-field").hidden = payload.runs.length < 2;
  $("run").append(...payload.runs.map((run, i) => el("option", { value: i }, run.name)));
  $("run").addEventListener("change", () => chooseRun(Number($("run").value)));
}

function stored() {
  try { return localStorage.getItem("epagcl-theme"); } catch { return null; }
}

function setTheme(theme) {
  root.dataset.theme = theme === "dark" ? "dark" : "light";
  $("theme").textContent = root.dataset.theme === "dark" ? "Light theme" : "Dark theme";
}

async function chooseRun(index) {
  const listed = $("comparison").contains(document.activeElement);
  const id = state.node === null ? null : view.map.ids[state.node];
  const top = scrollY;
  Object.assign(state, { run: index, selection: [], node: null });
  $("run").value = index;
  view.home = null;
  build();
  state.node = view.map?.place.get(id) ?? null; // the same node, if the other map has it
  scrollTo({ top, behavior: "instant" });
  if (listed) $("comparison").querySelectorAll("button")[index].focus({ preventScroll: true });
  await drawAll();
  if (view.map) showNode();
}

// ------------------------------------------------------------------------------------------------ plots, drawn when they come near the screen

const plots = new Map(); // element -> function that returns { data, layout }
const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) draw(target);
}, { rootMargin: "600px" });

// `draw` is called for each drawing, so that it uses the colours of the current theme.
function figure(title, note, height, draw, width = 0) {
  const div = el("div", { class: "plot", style: `height:${height}px;min-width:${width}px`, role: "img", "aria-label": title });
  plots.set(div, draw);
  return el("figure", {}, el("figcaption", {}, el("h3", {}, title), note ? el("p", {}, note) : null), el("div", { class: "scrolls" }, div));
}

function draw(div) {
  watcher.unobserve(div);
  div.dataset.drawn = "yes";
  const { data, layout } = plots.get(div)();
  return Plotly.react(div, data, { ...withLooks(layout), ...sized(div) }, QUIET);
}

// Draw the map now and the other plots when they come near the screen; with `again`, also redraw plots in new colours.
async function drawAll(again = false) {
  if (view.map) await drawMap();
  for (const div of plots.keys()) {
    if (div.dataset.drawn !== "yes") watcher.observe(div);
    else if (again) draw(div);
  }
}

// In print, all plots are drawn, dark on white, in the width of the paper, and all settings are shown.
let beforePrint = null;
addEventListener("beforeprint", () => {
  if (root.dataset.ready !== "yes") return;
  beforePrint = { theme: root.dataset.theme, closed: [...document.querySelectorAll("details:not([open])")] };
  setTheme("light");
  root.dataset.print = "yes";
  for (const part of beforePrint.closed) part.open = true;
  if (view.map) drawMap();
  for (const div of plots.keys()) draw(div);
});
addEventListener("afterprint", () => {
  if (!beforePrint) return;
  setTheme(beforePrint.theme);
  delete root.dataset.print;
  for (const part of beforePrint.closed) part.open = false;
  beforePrint = null;
  drawAll(true);
});

// Plots fill their boxes. In print they get the width at once, since the paper is laid out right after this.
const sized = (div) => (root.dataset.print ? { width: div.clientWidth, height: div.clientHeight, autosize: false } : { autosize: true });

function axis(title, more = {}) {
  return {
    title: { text: title, standoff: 8, font: { size: 13 } }, gridcolor: css("--grid"), linecolor: css("--line"), zeroline: false,
    automargin: true, fixedrange: true, ticks: "", ...more, // fixed, so that a finger or wheel on a small plot scrolls the page
  };
}

// Logarithmic if the values span at least 1.5 decades; over less, a logarithmic axis has hardly any ticks.
function spanAxis(title, values) {
  const positive = values.filter((value) => value > 0);
  const decades = Math.log10(Math.max(...positive) / Math.min(...positive));
  return axis(title, decades < 1.5 ? { rangemode: "tozero" } : { type: "log", dtick: decades < 3 ? "D2" : 1 });
}

function withLooks(layout) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 8, r: 12, t: 12, b: 8 }, showlegend: false,
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: css("--soft") }, dragmode: false,
    hoverlabel: { bgcolor: css("--panel"), bordercolor: css("--line"), font: { color: css("--ink"), size: 13 }, namelength: -1, align: "left" },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: css("--ink") } },
    ...layout,
  };
}

function curve(x, y, name, colour, marked = false) {
  return {
    type: "scatter", mode: marked ? "lines+markers" : "lines", x, y, name: safe(name), line: { color: colour, width: 2 },
    marker: { size: 6 }, hovertemplate: "%{y:.4~g}",
  };
}

function curves(data, xTitle, yTitle, showlegend = data.length > 1) {
  return {
    data,
    layout: { hovermode: "x unified", showlegend, xaxis: axis(xTitle, { rangemode: "tozero" }), yaxis: axis(yTitle) },
  };
}

const colourOf = (i) => PALETTE[i % PALETTE.length];

main().catch((error) => {
  $("loading").hidden = false;
  $("loading").textContent = `This report cannot be shown: ${error.message}`;
  throw error;
});
