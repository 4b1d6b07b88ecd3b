// The report page, in the order in which it happens: unpack, build the sections as text, then draw the plots.
// Text of users (ids, labels, names of columns) becomes text nodes; where Plotly wants strings it goes through safe().
// The map is in map.js, which stands before this in the same script.

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
    throw new Error("the browser cannot unpack data (DecompressionStream is missing). A browser of 2023 or later can.");
  }
  payload = JSON.parse(await unpack("payload"));
  state.mode = matchMedia("(pointer: coarse)").matches ? null : "pan"; // a finger on the map first of all scrolls the page
  buildHead();
  build();
  $("loading").hidden = true;
  await frame(); // the words are on the screen before the large library is read
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
  context?.getExtension("WEBGL_lose_context")?.loseContext(); // browsers allow few contexts, and the map wants three
  return Boolean(context);
}

// ------------------------------------------------------------------------------------------------ small things

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// In the middle: names often differ at their ends.
function short(text, most = 28) {
  const letters = text.length > most ? [...text] : []; // whole ones, also beyond 16 bits
  const tail = Math.floor(most * 0.4);
  return letters.length > most ? `${letters.slice(0, most - 1 - tail).join("")}…${letters.slice(-tail).join("")}` : text;
}
// Plotly reads <b>, <a href> and entities in its strings: those of users are cut short and taken literally.
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

// Cells from the column `numeric` on stand at the right. A wide table scrolls in its box, by keyboard too.
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
  $("made").textContent = `${payload.created.slice(0, 16).replace("T", " ")} UTC · epagcl ${payload.version}`;
  $("theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
    try { localStorage.setItem("epagcl-theme", root.dataset.theme); } catch { /* storage is off: the choice is not kept */ }
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
  state.node = view.map?.place.get(id) ?? null; // the same node, where it is there
  scrollTo({ top, behavior: "instant" });
  if (listed) $("comparison").querySelectorAll("button")[index].focus({ preventScroll: true });
  await drawAll();
  if (view.map) showNode();
}

// ------------------------------------------------------------------------------------------------ plots, when near

const plots = new Map(); // element -> function that gives { data, layout }
const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) draw(target);
}, { rootMargin: "600px" });

// `draw` is asked each time, so that it reads the colours of the theme.
function figure(title, note, height, draw, width = 0) {
  const div = el("div", { class: "plot", style: `height:${height}px;min-width:${width}px`, role: "img", "aria-label": title });
  plots.set(div, draw);
  return el("figure", {}, el("figcaption", {}, el("h3", {}, title), note ? el("p", {}, note) : null), el("div", { class: "scrolls" }, div));
}

function draw(div) {
  watcher.unobserve(div);
  div.dataset.drawn = "yes";
  const { data, layout } = plots.get(div)();
  return Plotly.react(div, data, withLooks(layout), QUIET);
}

// The map now, the others when they come near; with `again` those that stand there already, in new colours.
async function drawAll(again = false) {
  if (view.map) await drawMap();
  for (const div of plots.keys()) {
    if (div.dataset.drawn !== "yes") watcher.observe(div);
    else if (again) draw(div);
  }
}

// On paper everything is drawn, and dark on white.
let shownTheme = null;
addEventListener("beforeprint", () => {
  if (root.dataset.ready !== "yes") return;
  shownTheme = root.dataset.theme;
  setTheme("light");
  if (view.map && shownTheme === "dark") drawMap();
  for (const div of plots.keys()) if (shownTheme === "dark" || div.dataset.drawn !== "yes") draw(div);
});
addEventListener("afterprint", () => {
  if (shownTheme !== "dark") return;
  setTheme("dark");
  drawAll(true);
});

function axis(title, more = {}) {
  return {
    title: { text: title, standoff: 8, font: { size: 13 } }, gridcolor: css("--grid"), linecolor: css("--line"), zeroline: false,
    automargin: true, fixedrange: true, ticks: "", ...more, // fixed: a finger or wheel on a small plot scrolls the page
  };
}

// Logarithmic where the values span much; over little it would have one tick or none.
function spanAxis(title, values) {
  const known = values.filter((value) => value > 0);
  const decades = Math.log10(Math.max(...known) / Math.min(...known));
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
const MEASURES = [
  ["effective_rank", "Effective rank", "Directions that the embedding uses. A fall towards 1 is collapse."],
  ["alignment", "Alignment", "How far a node moves when details are hidden, as a share of the distance between nodes."],
  ["uniformity", "Uniformity", "How far nodes spread: 0 is one point, about −4 the whole sphere."],
];

// One curve for each run: used for one run and for all runs side by side.
function trainingFigures(runs) {
  const several = runs.length > 1;
  const losses = runs.flatMap(({ run, colour }) => [
    present(run.history?.loss) && [run.history.epoch, run.history.loss, several ? run.name : "training", colour],
    present(run.history?.validation_loss) && [run.history.epoch, run.history.validation_loss,
      several ? `${run.name}, validation` : "validation", several ? colour : colourOf(1)],
  ]).filter(Boolean);
  const made = MEASURES.map(([key, title, note]) => {
    const found = runs.filter(({ run }) => run.measures?.[key]?.filter((value) => value !== null).length > 1); // else it stands above
    return found.length ? figure(title, note, several ? 270 : 240, () =>
      curves(found.map(({ run, colour }) => curve(run.measures.epoch, run.measures[key], run.name, colour, true)), "epoch", "", false)) : null;
  });
  const loss = losses.length ? figure("Loss", several ? "Losses of different methods have different scales." : "", 280, () => {
    const data = losses.map((each) => curve(...each));
    data.forEach((trace) => { if (trace.name.endsWith("validation")) trace.line.dash = "dot"; });
    return curves(data, "epoch", "loss", data.length > 1 && !several);
  }) : null;
  const names = several ? el("ul", { class: "legend" }, runs.map(({ run, colour }) =>
    el("li", {}, el("span", { class: "swatch", style: `background:${colour}` }), run.name))) : null;
  return [names, loss, made.some(Boolean) ? el("div", { class: "figures" }, made) : null];
}

// ------------------------------------------------------------------------------------------------ the sections

function build() {
  for (const div of plots.keys()) {
    watcher.unobserve(div);
    if (div.dataset.drawn === "yes") Plotly.purge(div);
  }
  plots.clear();
  const run = payload.runs[state.run];
  const parts = [about(run), health(run), comparison(), mapSection(run), training(run), scores(run), graph(run)].filter(Boolean);
  $("main").replaceChildren(...parts, el("footer"));
  if (view.map) { showNode(); showSelection(); }
  $("contents").replaceChildren(el("div", {}, parts.map((part) => el("a", { href: `#${part.id}` }, part.dataset.title))));
}

function about(run) {
  const settings = [...(run.settings ?? [])].sort((a, b) => b.changed - a.changed); // a stable sort: else as given
  const changed = settings.filter((setting) => setting.changed).length;
  return section("about", "What was run",
    el("p", {}, el("strong", {}, run.name), el("span", { class: "quiet" }, ` · ${run.method} on ${run.graph}`)),
    run.facts?.length ? el("dl", { class: "facts" }, run.facts.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)))) : null,
    settings.length ? el("details", { id: "settings" },
      el("summary", {}, `Settings (${settings.length}, ${changed} changed from the default)`),
      table("Settings", ["Setting", "Value", "Meaning"], settings.map((setting) => [
        setting.name,
        el("td", {}, String(setting.value), setting.changed ? el("span", { class: "badge" }, "changed") : null),
        setting.meaning ?? "",
      ]), 3)) : null);
}

function health(run) {
  const agreement = payload.agreement;
  return section("health", "Did training work?",
    run.health?.length ? el("div", { class: "cards" }, run.health.map((item) => el("div", { class: "card" },
      el("h3", {}, capital(item.name)), el("div", { class: "value" }, item.shown, badge(item.verdict)), el("p", {}, item.words)))) : null,
    agreement ? el("div", { class: "beside", id: "agreement" },
      el("div", { class: "card" }, el("h3", {}, "Agreement between runs"),
        el("div", { class: "value" }, mostlyShared(agreement), badge(agreement.verdict)), el("p", {}, agreement.words)),
      table(`Share of common ${agreement.k} nearest neighbours`, ["", ...agreement.runs.map((name) => short(name, 20))],
        agreement.matrix.map((row, i) => [short(agreement.runs[i], 40), ...row.map((share) =>
          el("td", { class: "number shade", style: `--share:${share ?? 0}` }, decimal(share, 2)))]))) : null);
}

function mostlyShared({ matrix, k }) {
  const apart = matrix.flatMap((row, i) => row.filter((share, j) => j !== i && share !== null));
  const mean = apart.reduce((sum, share) => sum + share, 0) / Math.max(apart.length, 1);
  return `${(k * mean).toFixed(1)} of ${k} neighbours shared`;
}

function comparison() {
  if (payload.runs.length < 2) return null;
  const measured = [...new Set(payload.runs.flatMap((run) => (run.health ?? []).map((item) => item.name)))];
  const scored = payload.runs.some((run) => run.scores);
  const rows = payload.runs.map((run, i) => {
    const rows = run.scores?.rows ?? [];
    const own = rows.find((row) => row.name.toLowerCase() === run.method.toLowerCase()) ?? rows.at(-1) ?? {};
    const name = el("button", { class: "plain", type: "button", onclick: () => chooseRun(i) }, run.name);
    return [name, run.method, run.graph, ...(scored ? [count(run.scores?.runs), ...scoreCells(own)] : []), ...measured.map((wanted) => {
      const item = (run.health ?? []).find((each) => each.name === wanted);
      return el("td", { class: "number" }, item?.shown ?? "–", badge(item?.verdict));
    })];
  });
  const runs = payload.runs.map((run, i) => ({ run, colour: colourOf(i) }));
  return section("comparison", "Comparison",
    table("Runs", ["Run", "Method", "Graph", ...(scored ? ["Splits", ...SCORES] : []), ...measured.map(capital)], rows, 3,
      (r) => (r === state.run ? "current" : null)),
    trainingFigures(runs));
}

function training(run) {
  return section("training", "Training", trainingFigures([{ run, colour: colourOf(0) }]));
}

const SCORES = ["Accuracy, %", "Macro-F1, %", "k-NN, %", "NMI"];
function scoreCells(row) {
  const spread = row.std === null || row.std === undefined ? "" : ` ± ${percent(row.std)}`;
  return [percent(row.accuracy) + spread, percent(row.macro_f1), percent(row.knn), decimal(row.nmi)];
}

function scores(run) {
  const classes = run.classes;
  return section("scores", "Scores",
    run.scores ? [el("p", { class: "quiet" }, run.scores.protocol),
      table("Scores", ["Embedding", ...SCORES], run.scores.rows.map((row) => [row.name, ...scoreCells(row)]))] : null,
    classes ? el("div", { class: "beside" },
      figure("Confusion matrix", `Rows: true class, as shares of the row. ${capital(classes.note ?? "")}`,
        Math.min(900, 190 + 34 * classes.names.length), () => confusion(classes), 150 + 18 * classes.names.length),
      table("Scores of classes", ["Class", "Precision", "Recall", "F1", "Tested"], classes.names.map((name, i) => [
        name, decimal(classes.precision[i], 2), decimal(classes.recall[i], 2), decimal(classes.f1[i], 2),
        classes.support[i] === null ? "–" : count(classes.support[i])]))) : null);
}

function confusion({ names, confusion: counts }) {
  const sums = counts.map((row) => row.reduce((sum, value) => sum + value, 0));
  const shares = counts.map((row, i) => row.map((value) => value / Math.max(sums[i], 1)));
  // Classes stand at whole numbers with their names as ticks: names may look like numbers, or be the same twice.
  const narrow = innerWidth < 600;
  const ticks = { tickvals: names.map((_, i) => i), ticktext: names.map((name) => safe(name, narrow ? 12 : 18)), showgrid: false, showline: false };
  const hover = counts.map((row, i) => row.map((value, j) => `${count(value)} of ${count(sums[i])} test nodes (${percent(shares[i][j])}%)`
    + `<br>true: ${safe(names[i], 40)}<br>predicted: ${safe(names[j], 40)}`));
  return {
    data: [{
      type: "heatmap", z: shares, zmin: 0, zmax: 1, colorscale: [[0, css("--panel")], [1, css("--heat")]], showscale: false,
      xgap: 1, ygap: 1, hoverinfo: "text", hovertext: hover,
      ...(names.length <= 12 ? { text: counts.map((row) => row.map(count)), texttemplate: "%{text}" } : {}),
      ...(root.dataset.theme === "dark" ? { textfont: { color: css("--ink") } } : {}), // on white Plotly chooses well itself
    }],
    layout: {
      xaxis: axis("predicted", { ...ticks, tickangle: narrow || names.length > 15 ? -90 : -40 }),
      yaxis: axis("true", { ...ticks, autorange: "reversed" }),
    },
  };
}

function graph(run) {
  const { degree, epr, probabilities, views } = run.structure ?? {};
  const alone = degree?.nodes[degree.degree.indexOf(0)];
  const chances = ["drop", "add"].filter((kind) => probabilities?.[kind]?.degree.length);
  const sampled = (key) => views?.samples.some((each) => present(each[key]));
  const dashed = (value) => (present([value ?? null]) ? ` Dashed: the graph, ${Number.isInteger(value) ? count(value) : plain(value)}.` : "");
  const figures = [
    degree?.degree.length && figure("Degrees", `How many nodes have how many edges.${alone ? ` Without any: ${count(alone)}, not drawn.` : ""}`, 300,
      () => degrees(degree)),
    chances.length && figure("Probability that a pair changes in a view", `${probabilities.words ?? ""} Band: 5% to 95% of pairs.`, 300,
      () => chancesAgainstDegree(probabilities, chances)),
    sampled("epr") && figure("Error passing rate of sampled views", (views.words ?? "") + dashed(views.original), 300,
      () => samples(views, "epr", views.original, "EPR")),
    sampled("edges") && figure("Edges of sampled views", (sampled("epr") ? "" : views.words ?? "") + dashed(views.edges), 300,
      () => samples(views, "edges", views.edges, "edges")),
  ].filter(Boolean);
  return section("graph", "The graph",
    epr ? [epr.words ? el("p", {}, epr.words) : null, table("Error passing rate", ["Error passing rate", "Per node", "Per edge"],
      epr.rows.map((row) => [row.name, decimal(row.per_node), decimal(row.per_edge)]))] : null,
    figures.length ? el("div", { class: "figures pairs" }, figures) : null);
}

function degrees(all) {
  const linked = (values) => values.filter((_, i) => all.degree[i] > 0);
  const [degree, nodes] = [linked(all.degree), linked(all.nodes)];
  return {
    data: [{ type: "scatter", mode: "markers", x: degree, y: nodes, marker: { color: colourOf(0), size: 6, opacity: 0.8 },
      hovertemplate: "%{y:,} nodes of degree %{x:,}<extra></extra>" }],
    layout: { xaxis: spanAxis("degree", degree), yaxis: spanAxis("nodes", nodes) },
  };
}

function chancesAgainstDegree(probabilities, kinds) {
  const data = kinds.flatMap((kind) => {
    const { degree, mean, low, high } = probabilities[kind];
    const colour = colourOf(kind === "drop" ? 3 : 2);
    const edge = { type: "scatter", mode: "lines", x: degree, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    return [{ ...edge, y: low }, { ...edge, y: high, fill: "tonexty", fillcolor: `${colour}2e` }, curve(degree, mean, kind, colour, true)];
  });
  const drawn = curves(data, "degree of the pair (geometric mean)", "probability");
  drawn.layout.xaxis = spanAxis("degree of the pair (geometric mean)", kinds.flatMap((kind) => probabilities[kind].degree));
  drawn.layout.yaxis.rangemode = "tozero";
  return drawn;
}

function samples(views, key, original, title) {
  const data = views.samples.filter((each) => present(each[key])).map((each, i) => ({
    type: "box", y: each[key], name: `view ${Number(each.view)}`, boxpoints: "all", jitter: 0.7, pointpos: 0, hoveron: "points",
    marker: { color: colourOf(i), size: 5, opacity: 0.7 }, line: { width: 1.2 }, fillcolor: "rgba(0,0,0,0)",
    hovertemplate: "%{y:.4~g}<extra></extra>",
  }));
  const line = { type: "line", xref: "paper", x0: 0, x1: 1, y0: original, y1: original, line: { color: css("--ink"), width: 1.5, dash: "dash" } };
  return { data, layout: { xaxis: axis("", { showgrid: false }), yaxis: axis(title), shapes: present([original ?? null]) ? [line] : [] } };
}

main().catch((error) => {
  $("loading").hidden = false;
  $("loading").textContent = `This report cannot be shown: ${error.message}`;
  throw error;
});
