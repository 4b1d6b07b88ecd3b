// Elements, text and numbers, shared by all parts of the page.
// Users' text (ids, labels, column names) only ever becomes text nodes, attributes' values or text on the canvas.

const root = document.documentElement;
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const PALETTE = [
  "#4269d0", "#e8812f", "#3a9d4f", "#d64550", "#9a5fe0", "#98694c", "#e072b0", "#2a9fa8", "#bb9a0c", "#6b7fa3",
  "#1f8fd6", "#a8501a", "#7cb342", "#b0416f", "#7357d1", "#c79a78", "#c238c2", "#2fae97", "#7a7d1e", "#6f93ea",
];
const colourOf = (i) => PALETTE[i % PALETTE.length];

function el(tag, attributes = {}, ...children) { return furnish(document.createElement(tag), attributes, children); }
function svg(tag, attributes = {}, ...children) { return furnish(document.createElementNS(SVG, tag), attributes, children); }

// `on…` are listeners. `style` is an object: the policy of the page forbids style attributes, but not single properties.
function furnish(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [property, setting] of Object.entries(value)) node.style.setProperty(property, setting);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// ------------------------------------------------------------------------------------------------ text and numbers

// Shorten in the middle, since names often differ at their ends.
function short(text, most = 28) {
  const letters = text.length > most ? [...text] : []; // whole characters, also beyond 16 bits
  const tail = Math.floor(most * 0.4);
  return letters.length > most ? `${letters.slice(0, most - 1 - tail).join("")}…${letters.slice(-tail).join("")}` : text;
}
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const font = (size, weight = 400) => `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
const present = (values) => Boolean(values?.some((value) => value !== null));
const count = (value) => value?.toLocaleString("en") ?? "–";
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const percent = (value) => (value === null || value === undefined ? "–" : (100 * value).toFixed(1));
const decimal = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const plain = (value) => String(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

// The least and the largest value. Math.min(...values) fails on long lists.
function extent(values) {
  let least = Infinity, most = -Infinity;
  for (const value of values) {
    if (value === null) continue;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return [least, most];
}

// ------------------------------------------------------------------------------------------------ parts of sections

function badge(verdict) {
  const mark = { good: "✓ ", fair: "~ ", poor: "✕ " }[verdict];
  return mark ? el("span", { class: `badge ${verdict}` }, mark + verdict) : null;
}

const swatch = (colour) => el("span", { class: "swatch", style: { background: colour ?? "transparent" } });

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

// Offer a file for download.
function saveFile(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
