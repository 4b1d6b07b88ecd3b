// Figures with a title, drawn when they come near the screen, when their width changes, and all of them for print.

const plots = new Map(); // element -> function that draws into it
const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) drawPlot(target);
}, { rootMargin: "600px" });
const resizer = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.dataset.drawn === "yes" && Number(target.dataset.width) !== target.clientWidth) drawPlot(target);
});

// `draw` is called with the element, whose size is known then.
function figure(title, note, height, draw) {
  const div = el("div", { class: "plot", style: { "min-height": `${height}px` }, role: "group", "aria-label": title });
  plots.set(div, draw);
  return el("figure", {}, el("figcaption", {}, el("h3", {}, title), note ? el("p", {}, note) : null), div);
}

// A figure with a chart of charts.js, which fills the height.
function chartFigure(title, note, height, chart) {
  const drawn = figure(title, note, height, (div) => drawChart(div, chart()));
  const div = drawn.querySelector(".plot");
  div.style.setProperty("height", `${height}px`);
  div.setAttribute("role", "img");
  return drawn;
}

function drawPlot(div) {
  watcher.unobserve(div);
  div.dataset.drawn = "yes";
  div.dataset.width = div.clientWidth;
  plots.get(div)(div);
  div.style.removeProperty("min-height"); // only kept the place until now
  resizer.observe(div);
}

function forgetPlots() {
  watcher.disconnect();
  resizer.disconnect();
  plots.clear();
}

// Draw the map now, and the other plots when they come near the screen.
function drawAll() {
  if (view.map) drawMap();
  for (const div of plots.keys()) if (div.dataset.drawn !== "yes") watcher.observe(div);
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
  for (const div of plots.keys()) drawPlot(div);
});
addEventListener("afterprint", () => {
  if (!beforePrint) return;
  setTheme(beforePrint.theme);
  delete root.dataset.print;
  for (const part of beforePrint.closed) part.open = false;
  beforePrint = null;
  if (view.map) drawMap();
  for (const div of plots.keys()) drawPlot(div);
});
