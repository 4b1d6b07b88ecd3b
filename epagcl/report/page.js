// The report page: unpack the data, build the sections as text, then draw the plots.
// All parts are one script; this one is its last.

let payload;
const state = { run: 0, column: "", node: null, selection: [], mode: "pan" };

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
  listenToMap();
  drawAll();
  root.dataset.ready = "yes";
}

async function unpack(id) {
  const text = $(id).textContent;
  $(id).remove();
  const bytes = Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// ------------------------------------------------------------------------------------------------ head and theme

function buildHead() {
  document.title = payload.title;
  $("title").textContent = payload.title;
  $("created").textContent = `${payload.created.slice(0, 16).replace("T", " ")} UTC · epagcl ${payload.version}`;
  $("theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
    try { localStorage.setItem("epagcl-theme", root.dataset.theme); } catch { /* storage is disabled: the choice is not remembered */ }
    if (view.map) drawMap();
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

function chooseRun(index) {
  const listed = $("comparison").contains(document.activeElement);
  const id = state.node === null ? null : view.map.ids[state.node];
  const top = scrollY;
  Object.assign(state, { run: index, selection: [], node: null });
  Object.assign(view, { home: null, chosen: null, outlines: [], pointed: null });
  $("run").value = index;
  build();
  state.node = view.map?.place.get(id) ?? null; // the same node, if the other map has it
  scrollTo({ top, behavior: "instant" });
  if (listed) $("comparison").querySelectorAll("button")[index].focus({ preventScroll: true });
  drawAll();
  if (view.map) showNode();
}

main().catch((error) => {
  $("loading").hidden = false;
  $("loading").textContent = `This report cannot be shown: ${error.message}`;
  throw error;
});
