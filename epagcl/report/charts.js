// Charts as SVG: lines with bands, points, and boxes with their points, on linear or logarithmic axes.
// Colours of axes and text come from page.css, so that they follow the theme without a new drawing.
//
// A chart is { x, y, layers, legend, reference }: two axes of axes.js and layers of one of these kinds:
//   { kind: "line", name, colour, x, y, dashed, marked, low, high }   low and high bound a band around the line
//   { kind: "points", colour, x, y, words(i) }                        words are shown when a point is hovered
//   { kind: "box", name, colour, y }                                  quartiles and all values; boxes share the x axis
// `reference` is a value of y at which a dashed line is drawn.

const TEXT = 12; // size of ticks and titles in pixels
const REACH = 24; // pixels within which a point is hovered

let measuring = null;
function textWidth(text) {
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = font(TEXT);
  return measuring.measureText(text).width;
}

function drawChart(div, chart) {
  const boxes = chart.layers.filter((layer) => layer.kind === "box");
  const named = (layer) => el("li", {}, swatch(layer.colour), short(layer.name));
  const legend = chart.legend ? el("ul", { class: "legend" }, chart.layers.map(named)) : null;
  div.replaceChildren(...(legend ? [legend] : []));
  const width = div.clientWidth, height = div.clientHeight - (legend?.offsetHeight ?? 0);
  const yTicks = chart.y.ticks(height / 45);
  const left = (chart.y.title ? 20 : 0) + 8 + Math.max(...yTicks.map((tick) => textWidth(tick.text)), 0);
  const frame = { left, top: 8, right: width - 12, bottom: height - (chart.x?.title ? 42 : 24) };
  const place = placing(chart, frame, boxes.length);
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    axisLines(chart, frame, place, yTicks), boxes.map((layer, i) => label(place.x(i + 0.5), frame.bottom + 17, layer.name)),
    chart.layers.map((layer) => MARKS[layer.kind](layer, place, boxes.indexOf(layer))),
    present([chart.reference ?? null]) ? across("reference", frame, place.y(chart.reference)) : null);
  const readout = el("div", { class: "readout", hidden: "" });
  div.append(picture, readout);
  div.chart = chart; // what is drawn, for tests and for a browser's console
  hoverChart(div, picture, readout, chart, place, frame, legend?.offsetHeight ?? 0);
}

// Pixels of a value; boxes stand at 0.5, 1.5, … on an axis without values.
function placing(chart, { left, right, top, bottom }, boxes) {
  const at = boxes ? (value) => value / boxes : (value) => chart.x.at(value);
  return { x: (value) => left + (right - left) * at(value), y: (value) => bottom - (bottom - top) * chart.y.at(value) };
}

const across = (name, { left, right }, y) => svg("line", { class: name, x1: left, x2: right, y1: y, y2: y });
const label = (x, y, text, more = {}) => svg("text", { x, y, "text-anchor": "middle", ...more }, text);

function axisLines(chart, frame, place, yTicks) {
  const { left, right, top, bottom } = frame;
  const xTicks = chart.x?.ticks((right - left) / 70) ?? [];
  const middle = (top + bottom) / 2;
  return svg("g", { class: "axes" },
    yTicks.map((tick) => [across(null, frame, place.y(tick.value)),
      label(left - 6, place.y(tick.value) + 4, tick.text, { "text-anchor": "end" })]).flat(),
    xTicks.map((tick) => [svg("line", { x1: place.x(tick.value), x2: place.x(tick.value), y1: top, y2: bottom }),
      label(place.x(tick.value), bottom + 17, tick.text)]).flat(),
    chart.x?.title ? label((left + right) / 2, bottom + 37, chart.x.title, { class: "axis-title" }) : null,
    chart.y.title ? label(12, middle, chart.y.title, { class: "axis-title", transform: `rotate(-90 12 ${middle})` }) : null);
}

// ------------------------------------------------------------------------------------------------ marks

// Whether a point can be drawn: its value is there, and its place is not at infinity, as that of 0 on a logarithmic axis.
const drawable = (x, y, place) => y !== null && Number.isFinite(place.x(x)) && Number.isFinite(place.y(y));

// The path through all points; one that cannot be drawn interrupts it.
function pathOf(x, y, place) {
  let path = "", joined = false;
  y.forEach((value, i) => {
    const there = drawable(x[i], value, place);
    if (there) path += `${joined ? "L" : "M"}${place.x(x[i]).toFixed(1)},${place.y(value).toFixed(1)}`;
    joined = there;
  });
  return path;
}

function lineMarks({ x, y, low, high, colour, dashed, marked }, place) {
  const back = (values) => [...values].reverse();
  return svg("g", { class: "line", stroke: colour, fill: colour },
    low ? svg("path", { class: "band", d: `${pathOf(x, low, place)}${pathOf(back(x), back(high), place).replace("M", "L")}Z` }) : null,
    svg("path", { class: dashed ? "dashed" : null, d: pathOf(x, y, place) }),
    marked ? y.map((value, i) => (drawable(x[i], value, place) ? dot(place.x(x[i]), place.y(value)) : null)) : null);
}

const dot = (cx, cy, r = 3, more = {}) => svg("circle", { cx, cy, r, ...more });

function pointMarks({ x, y, colour }, place) {
  return svg("g", { class: "points", fill: colour }, y.map((value, i) => dot(place.x(x[i]), place.y(value))));
}

// The i-th point of a box stands a little to the side, the same at each drawing.
const jitter = (i) => 0.35 * (((i * 0.618034) % 1) - 0.5);

function boxMarks({ y, colour }, place, index) {
  const sorted = y.filter((value) => value !== null).sort((a, b) => a - b);
  const quantile = (share) => {
    const at = share * (sorted.length - 1), below = Math.floor(at);
    return sorted[below] + (at - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
  };
  const [first, median, third] = [0.25, 0.5, 0.75].map(quantile);
  const reach = 1.5 * (third - first); // whiskers end at the last value within 1.5 quartile distances
  const [low, high] = [sorted.find((value) => value >= first - reach), sorted.findLast((value) => value <= third + reach)];
  const [left, centre, right] = [0.25, 0.5, 0.75].map((part) => place.x(index + part));
  const level = (value, from = left, to = right) => across(null, { left: from, right: to }, place.y(value));
  const upright = (from, to) => svg("line", { x1: centre, x2: centre, y1: place.y(from), y2: place.y(to) });
  const cap = (right - left) / 4;
  return svg("g", { class: "box", stroke: colour, fill: colour },
    svg("rect", { x: left, width: right - left, y: place.y(third), height: Math.max(0, place.y(first) - place.y(third)) }),
    level(median), upright(low, first), upright(third, high), level(low, centre - cap, centre + cap), level(high, centre - cap, centre + cap),
    svg("g", { class: "points" }, y.map((value, i) => (value === null ? null : dot(place.x(index + 0.5 + jitter(i)), place.y(value), 2.6)))));
}

const MARKS = { line: lineMarks, points: pointMarks, box: boxMarks };

// ------------------------------------------------------------------------------------------------ readout

function hoverChart(div, picture, readout, chart, place, frame, above) {
  const lines = chart.layers.filter((layer) => layer.kind === "line");
  const find = lines.length ? stopsOf(lines, chart, place, frame) : pointsOf(chart, place);
  const mark = svg("g", { class: "hovered" });
  picture.append(mark);
  const leave = () => { readout.hidden = true; mark.replaceChildren(); };
  div.onpointerleave = leave;
  div.onpointermove = div.onpointerdown = (event) => {
    const box = picture.getBoundingClientRect();
    const found = find(event.clientX - box.left, event.clientY - box.top);
    if (!found) { leave(); return; }
    mark.replaceChildren(...found.marks);
    readout.replaceChildren(...found.words);
    readout.hidden = false;
    const wide = readout.offsetWidth, x = found.x + 14 + wide > div.clientWidth ? found.x - wide - 14 : found.x + 14;
    readout.style.setProperty("left", `${Math.max(0, x)}px`);
    readout.style.setProperty("top", `${above + frame.top + 4}px`);
  };
}

// With lines, all values at the nearest x are read out.
function stopsOf(lines, chart, place, frame) {
  const stops = new Map();
  for (const layer of lines) {
    layer.y.forEach((value, i) => {
      if (value === null) return;
      if (!stops.has(layer.x[i])) stops.set(layer.x[i], []);
      stops.get(layer.x[i]).push({ layer, value });
    });
  }
  const sorted = [...stops.keys()].sort((a, b) => a - b);
  return (x) => {
    const nearest = nearestBy(sorted, (value) => Math.abs(place.x(value) - x));
    if (nearest === null) return null;
    const at = place.x(nearest), found = stops.get(nearest);
    return {
      x: at,
      marks: [svg("line", { x1: at, x2: at, y1: frame.top, y2: frame.bottom }),
        ...found.map(({ layer, value }) => dot(at, place.y(value), 4, { fill: layer.colour }))],
      words: [el("strong", {}, `${chart.x.title} ${readable(nearest)}`), ...found.map(({ layer, value }) =>
        el("div", {}, swatch(layer.colour), lines.length > 1 ? `${short(layer.name, 40)}: ` : "", readable(value)))],
    };
  };
}

function pointsOf(chart, place) {
  const boxes = chart.layers.filter((layer) => layer.kind === "box");
  const points = chart.layers.flatMap((layer) => layer.y.map((value, i) => (value === null ? null : {
    x: layer.kind === "box" ? place.x(boxes.indexOf(layer) + 0.5 + jitter(i)) : place.x(layer.x[i]), y: place.y(value), colour: layer.colour,
    words: layer.words?.(i) ?? `${layer.name}: ${readable(value)}` }))).filter(Boolean);
  return (x, y) => {
    const point = nearestBy(points, (each) => Math.hypot(each.x - x, each.y - y));
    if (!point || Math.hypot(point.x - x, point.y - y) > REACH) return null;
    return { x: point.x, marks: [dot(point.x, point.y, 5, { fill: point.colour })], words: [point.words] };
  };
}

function nearestBy(items, distance) {
  let best = null, least = Infinity;
  for (const item of items) {
    const far = distance(item);
    if (far < least) [best, least] = [item, far];
  }
  return best;
}
