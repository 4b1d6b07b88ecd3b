// The sections of the page, in the order in which they appear; build() assembles them.

function build() {
  forgetPlots();
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
      el("h3", {}, capital(item.name)), el("div", { class: "value" }, measured(item.shown), badge(item.verdict)), el("p", {}, item.words)))) : null,
    agreement ? el("div", { class: "beside", id: "agreement" },
      el("div", { class: "card" }, el("h3", {}, "Agreement between runs"),
        el("div", { class: "value" }, meanShared(agreement), badge(agreement.verdict)), el("p", {}, agreement.words)),
      table(`Share of common ${agreement.k} nearest neighbours`, ["", ...agreement.runs.map((name) => short(name, 20))],
        agreement.matrix.map((row, i) => [short(agreement.runs[i], 40), ...row.map((share) =>
          el("td", { class: "number shade", style: { "--share": share ?? 0 } }, decimal(share, 2)))]))) : null);
}

// A value such as "10% (raw 5%, propagated 7%)": what it is compared with is smaller.
function measured(text) {
  const [value, compared] = text.split(/ (?=\()/);
  return compared ? [value, el("small", {}, compared)] : value;
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
        100 + (classes.names.length > MOST_NUMBERED ? 19 : 36) * classes.names.length, (div) => confusion(div, classes)),
      table("Scores of classes", ["Class", "Precision", "Recall", "F1", "Test nodes"], classes.names.map((name, i) => [
        name, decimal(classes.precision[i], 2), decimal(classes.recall[i], 2), decimal(classes.f1[i], 2),
        classes.support[i] === null ? "–" : count(classes.support[i])]))) : null);
}

const MOST_NUMBERED = 12; // classes up to which the cells of a confusion matrix show their numbers
// A table, so that its numbers can be read and copied. With many classes, cells show their number when hovered.
function confusion(div, { names, confusion: counts }) {
  const numbered = names.length <= MOST_NUMBERED;
  const upright = names.some((name) => name.length > 3) ? "upright" : null; // names of columns
  const sums = counts.map((row) => row.reduce((sum, value) => sum + value, 0));
  const cell = (value, i, j) => {
    const share = value / Math.max(sums[i], 1);
    const words = `${count(value)} of ${count(sums[i])} test nodes (${percent(share)}%)\n`
      + `true: ${short(names[i], 40)}\npredicted: ${short(names[j], 40)}`;
    return el("td", { class: share > 0.5 ? "deep" : null, title: words, style: { "--share": share } }, numbered ? count(value) : "");
  };
  const name = (i) => short(names[i], innerWidth < 600 ? 12 : 18);
  div.replaceChildren(el("div", { class: "scrolls", role: "region", tabindex: 0, "aria-label": "Confusion matrix" },
    el("table", { class: `confusion${numbered ? "" : " dense"}`, style: { "--classes": names.length } },
      el("thead", {}, el("tr", {}, el("td"), el("th", { class: "axis-title", colspan: names.length }, "predicted")),
        el("tr", {}, el("td", { class: "axis-title" }, "true"),
          names.map((full, j) => el("th", { scope: "col", title: full }, el("span", { class: upright }, name(j)))))),
      el("tbody", {}, counts.map((row, i) => el("tr", {}, el("th", { scope: "row", title: names[i] }, name(i)),
        row.map((value, j) => cell(value, i, j))))))));
}

function graph(run) {
  const { degree, epr, probabilities, views } = run.structure ?? {};
  const isolated = degree?.nodes[degree.degree.indexOf(0)];
  const chances = ["drop", "add"].filter((kind) => probabilities?.[kind]?.degree.length);
  const sampled = (key) => views?.samples.some((each) => present(each[key]));
  const dashed = (value) => (present([value ?? null]) ? ` Dashed line: the graph (${Number.isInteger(value) ? count(value) : plain(value)}).` : "");
  const figures = [
    degree?.degree.length && chartFigure("Degrees", `Number of nodes of each degree.${isolated ? ` Not drawn: ${count(isolated)} without edges.` : ""}`, 300,
      () => degrees(degree)),
    chances.length && chartFigure("Probability that a pair changes in a view", `${probabilities.words ?? ""} The band covers 5% to 95% of the pairs.`, 300,
      () => chancesAgainstDegree(probabilities, chances)),
    sampled("epr") && chartFigure("Error passing rate of sampled views", (views.words ?? "") + dashed(views.original), 300,
      () => samples(views, "epr", views.original, "EPR")),
    sampled("edges") && chartFigure("Edges of sampled views", (sampled("epr") ? "" : views.words ?? "") + dashed(views.edges), 300,
      () => samples(views, "edges", views.edges, "edges")),
  ].filter(Boolean);
  return section("graph", "The graph",
    epr ? [epr.words ? el("p", {}, epr.words) : null, table("Error passing rate", ["Error passing rate", "Per node", "Per edge"],
      epr.rows.map((row) => [row.name, decimal(row.per_node), decimal(row.per_edge)]))] : null,
    figures.length ? el("div", { class: "figures pairs" }, figures) : null);
}

function degrees(all) {
  const linked = (values) => values.filter((_, i) => all.degree[i] > 0);
  const [x, y] = [linked(all.degree), linked(all.nodes)];
  return {
    x: spanAxis("degree", x, true), y: spanAxis("nodes", y, true),
    layers: [{ kind: "points", colour: colourOf(0), x, y, words: (i) => `${count(y[i])} ${y[i] === 1 ? "node" : "nodes"} of degree ${count(x[i])}` }],
  };
}

function chancesAgainstDegree(probabilities, kinds) {
  const layers = kinds.map((kind) => {
    const { degree, mean, low, high } = probabilities[kind];
    return { kind: "line", name: kind, colour: colourOf(kind === "drop" ? 3 : 2), x: degree, y: mean, low, high, marked: true };
  });
  return {
    x: spanAxis("degree of the pair (geometric mean)", layers.flatMap((layer) => layer.x)),
    y: axisOf({ title: "probability", values: layers.flatMap((layer) => [...layer.y, ...layer.high]), zero: true }), layers, legend: layers.length > 1,
  };
}

function samples(views, key, original, title) {
  const layers = views.samples.filter((each) => present(each[key])).map((each, i) =>
    ({ kind: "box", name: `view ${Number(each.view)}`, colour: colourOf(i), y: each[key] }));
  const values = [...layers.flatMap((layer) => layer.y), original ?? null];
  return { y: axisOf({ title, values, whole: key === "edges" }), layers, reference: original };
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
    present(run.history?.loss) && curve(run.history.epoch, run.history.loss, several ? run.name : "training", colour),
    present(run.history?.validation_loss) && { ...curve(run.history.epoch, run.history.validation_loss,
      several ? `${run.name}, validation` : "validation", several ? colour : colourOf(1)), dashed: true },
  ]).filter(Boolean);
  const measures = MEASURES.map(([key, title, note]) => {
    const measured = runs.filter(({ run }) => run.measures?.[key]?.filter((value) => value !== null).length > 1); // one value is no curve
    return measured.length ? chartFigure(title, note, several ? 270 : 240, () =>
      curves(measured.map(({ run, colour }) => ({ ...curve(run.measures.epoch, run.measures[key], run.name, colour), marked: true })), "")) : null;
  });
  const loss = losses.length ? chartFigure("Loss", several ? "Losses of different methods have different scales." : "", 280, () =>
    ({ ...curves(losses, "loss"), legend: losses.length > 1 && !several })) : null;
  const names = several ? el("ul", { class: "legend" }, runs.map(({ run, colour }) => el("li", {}, swatch(colour), run.name))) : null;
  return [names, loss, measures.some(Boolean) ? el("div", { class: "figures" }, measures) : null];
}

const curve = (x, y, name, colour) => ({ kind: "line", name, colour, x, y });

function curves(layers, title) {
  return {
    x: axisOf({ title: "epoch", values: layers.flatMap((layer) => layer.x), zero: true, whole: true, tight: true }),
    y: axisOf({ title, values: layers.flatMap((layer) => layer.y) }), layers,
  };
}
