// The sections of the page, in the order in which they appear; build() assembles them.

function build() {
  for (const div of plots.keys()) {
    watcher.unobserve(div);
    if (div.dataset.drawn === "yes") Plotly.purge(div);
  }
  plots.clear();
  const run = payload.runs[state.run];
  const parts = [answer(run), health(run), comparison(), mapSection(run), training(run), scores(run), graph(run), about(run)].filter(Boolean);
  $("main").replaceChildren(...parts, el("footer"));
  if (view.map) { showNode(); showSelection(); }
  $("contents").replaceChildren(el("div", {}, parts.map((part) => el("a", { href: `#${part.id}` }, part.dataset.title))));
}

function about(run) {
  const settings = [...(run.settings ?? [])].sort((a, b) => b.changed - a.changed); // stable: otherwise the given order
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
  const trained = !run.settings?.length || run.settings.some((setting) => setting.name === "epochs");
  return section("health", trained ? "Did training work?" : "Is the embedding sound?",
    run.health?.length ? el("div", { class: "cards" }, run.health.map((item) => el("div", { class: "card" },
      el("h3", {}, capital(item.name)), el("div", { class: "value" }, item.shown, badge(item.verdict)), el("p", {}, item.words)))) : null,
    agreement ? el("div", { class: "beside", id: "agreement" },
      el("div", { class: "card" }, el("h3", {}, "Agreement between runs"),
        el("div", { class: "value" }, meanShared(agreement), badge(agreement.verdict)), el("p", {}, agreement.words)),
      table(`Share of common ${agreement.k} nearest neighbours`, ["", ...agreement.runs.map((name) => short(name, 20))],
        agreement.matrix.map((row, i) => [short(agreement.runs[i], 40), ...row.map((share) =>
          el("td", { class: "number shade", style: `--share:${share ?? 0}` }, decimal(share, 2)))]))) : null);
}

function meanShared({ matrix, k }) {
  const pairs = matrix.flatMap((row, i) => row.filter((share, j) => j !== i && share !== null));
  const mean = pairs.reduce((sum, share) => sum + share, 0) / Math.max(pairs.length, 1);
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
      figure("Confusion matrix", `Rows are true classes; the colour is the share of the row. ${capital(classes.note ?? "")}`,
        Math.min(900, 190 + 34 * classes.names.length), () => confusion(classes), 150 + 18 * classes.names.length),
      table("Scores of classes", ["Class", "Precision", "Recall", "F1", "Test nodes"], classes.names.map((name, i) => [
        name, decimal(classes.precision[i], 2), decimal(classes.recall[i], 2), decimal(classes.f1[i], 2),
        classes.support[i] === null ? "–" : count(classes.support[i])]))) : null);
}

function confusion({ names, confusion: counts }) {
  const sums = counts.map((row) => row.reduce((sum, value) => sum + value, 0));
  const shares = counts.map((row, i) => row.map((value) => value / Math.max(sums[i], 1)));
  // Classes are placed at integers with their names as tick labels: names may look like numbers or occur twice.
  const narrow = innerWidth < 600;
  const ticks = { tickvals: names.map((_, i) => i), ticktext: names.map((name) => safe(name, narrow ? 12 : 18)), showgrid: false, showline: false };
  const hover = counts.map((row, i) => row.map((value, j) => `${count(value)} of ${count(sums[i])} test nodes (${percent(shares[i][j])}%)`
    + `<br>true: ${safe(names[i], 40)}<br>predicted: ${safe(names[j], 40)}`));
  return {
    data: [{
      type: "heatmap", z: shares, zmin: 0, zmax: 1, colorscale: [[0, css("--panel")], [1, css("--heat")]], showscale: false,
      xgap: 1, ygap: 1, hoverinfo: "text", hovertext: hover,
      ...(names.length <= 12 ? { text: counts.map((row) => row.map(count)), texttemplate: "%{text}" } : {}),
      ...(root.dataset.theme === "dark" ? { textfont: { color: css("--ink") } } : {}), // on white, Plotly's own choice is legible
    }],
    layout: {
      xaxis: axis("predicted", { ...ticks, tickangle: narrow || names.length > 15 ? -90 : -40 }),
      yaxis: axis("true", { ...ticks, autorange: "reversed" }),
    },
  };
}

function graph(run) {
  const { degree, epr, probabilities, views } = run.structure ?? {};
  const isolated = degree?.nodes[degree.degree.indexOf(0)];
  const chances = ["drop", "add"].filter((kind) => probabilities?.[kind]?.degree.length);
  const sampled = (key) => views?.samples.some((each) => present(each[key]));
  const dashed = (value) => (present([value ?? null]) ? ` Dashed line: the graph (${Number.isInteger(value) ? count(value) : plain(value)}).` : "");
  const figures = [
    degree?.degree.length && figure("Degrees", `Number of nodes of each degree.${isolated ? ` Not drawn: ${count(isolated)} without edges.` : ""}`, 300,
      () => degrees(degree)),
    chances.length && figure("Probability that a pair changes in a view", `${probabilities.words ?? ""} The band covers 5% to 95% of the pairs.`, 300,
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

// ------------------------------------------------------------------------------------------------ training curves

const MEASURES = [
  ["effective_rank", "Effective rank", "Number of directions that the embedding uses. A fall towards 1 means collapse."],
  ["alignment", "Alignment", "How far a node moves when a part of its edges and features is hidden, relative to the distance between nodes."],
  ["uniformity", "Uniformity", "How evenly nodes spread over the sphere: 0 if all are at one point, about −4 if they cover it."],
];

// One curve per run, for a single run and for the comparison of runs.
function trainingFigures(runs) {
  const several = runs.length > 1;
  const losses = runs.flatMap(({ run, colour }) => [
    present(run.history?.loss) && [run.history.epoch, run.history.loss, several ? run.name : "training", colour],
    present(run.history?.validation_loss) && [run.history.epoch, run.history.validation_loss,
      several ? `${run.name}, validation` : "validation", several ? colour : colourOf(1)],
  ]).filter(Boolean);
  const measures = MEASURES.map(([key, title, note]) => {
    const measured = runs.filter(({ run }) => run.measures?.[key]?.filter((value) => value !== null).length > 1); // one value is no curve
    return measured.length ? figure(title, note, several ? 270 : 240, () =>
      curves(measured.map(({ run, colour }) => curve(run.measures.epoch, run.measures[key], run.name, colour, true)), "epoch", "", false)) : null;
  });
  const loss = losses.length ? figure("Loss", several ? "Losses of different methods have different scales." : "", 280, () => {
    const data = losses.map((each) => curve(...each));
    data.forEach((trace) => { if (trace.name.endsWith("validation")) trace.line.dash = "dot"; });
    return curves(data, "epoch", "loss", data.length > 1 && !several);
  }) : null;
  const names = several ? el("ul", { class: "legend" }, runs.map(({ run, colour }) =>
    el("li", {}, el("span", { class: "swatch", style: `background:${colour}` }), run.name))) : null;
  return [names, loss, measures.some(Boolean) ? el("div", { class: "figures" }, measures) : null];
}
