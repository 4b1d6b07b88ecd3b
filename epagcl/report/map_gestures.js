// The pointer and the keyboard on the map: hovering, clicking, dragging, the wheel, and two fingers.

const HOVER_REACH = { mouse: 12, pen: 16, touch: 24 }; // pixels from the pointer to a point
const STILL = 4; // pixels that a click may move

let drag = null; // the drag in progress: { from, last, moved, mode, adding, removing }
let wheelZooms = false; // the wheel scrolls the page until the map is clicked, and again after the pointer has left
const fingers = new Map(); // where the pointers are that are down

function listenToMap() {
  const { canvas } = view;
  if (!payload.runs.some((run) => run.map)) return;
  canvas.addEventListener("pointerdown", press);
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", (event) => { fingers.delete(event.pointerId); endDrag(); });
  canvas.addEventListener("pointerleave", () => { wheelZooms = false; point(null); });
  canvas.addEventListener("dblclick", () => { if (state.mode === "pan") goHome(); else if (state.mode) select([]); });
  canvas.addEventListener("wheel", wheel, { passive: false });
  canvas.addEventListener("keydown", key);
  new ResizeObserver(() => { if (view.home) paint(); }).observe(canvas);
  addEventListener("resize", repaint); // also another screen with other pixels
}

function placeOf(event) {
  const box = view.canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

const nodeNear = (place, event) => {
  const reach = (HOVER_REACH[event.pointerType] ?? HOVER_REACH.mouse) * unitOf(sizeOf(view.canvas));
  return nearestPoint(view.map.grid, ...toMap(...place), reach, view.visible);
};

function press(event) {
  if (event.button !== 0) return;
  const place = placeOf(event);
  wheelZooms = true;
  view.canvas.setPointerCapture(event.pointerId); // so that a drag continues outside the map
  fingers.set(event.pointerId, place);
  point(null);
  if (fingers.size > 1) { endDrag(); return; } // two fingers zoom
  drag = { from: place, last: place, moved: false, mode: state.mode, adding: event.shiftKey, removing: event.altKey };
}

function move(event) {
  const place = placeOf(event);
  if (!fingers.has(event.pointerId)) { hover(place, event); return; }
  if (fingers.size === 2) { pinch(event.pointerId, place); return; }
  if (!drag) return;
  drag.moved ||= Math.hypot(place[0] - drag.from[0], place[1] - drag.from[1]) > STILL * (event.pointerType === "touch" ? 3 : 1);
  if (drag.moved) continueDrag(place);
}

function release(event) {
  const tapped = drag && !drag.moved, place = placeOf(event);
  fingers.delete(event.pointerId);
  if (tapped) choose(nodeNear(place, event));
  else if (drag && view.outline) selectInside(view.outline, drag);
  endDrag();
}

function endDrag() {
  drag = null;
  delete view.canvas.dataset.dragging;
  if (view.outline) { view.outline = null; repaint(); }
}

function continueDrag(place) {
  view.canvas.dataset.dragging = "";
  if (drag.mode === "pan") {
    const unit = unitOf(sizeOf(view.canvas));
    moveTo(view.camera.x - (place[0] - drag.last[0]) * unit, view.camera.y + (place[1] - drag.last[1]) * unit);
  } else if (drag.mode === "select") {
    const [[x0, y0], [x1, y1]] = [toMap(...drag.from), toMap(...place)];
    view.outline = [[x0, y0], [x1, y0], [x1, y1], [x0, y1]];
    repaint();
  } else if (drag.mode === "lasso") {
    if (view.outline && Math.hypot(place[0] - drag.last[0], place[1] - drag.last[1]) < 2) return; // enough corners
    view.outline = [...(view.outline ?? [toMap(...drag.from)]), toMap(...place)];
    repaint();
  }
  drag.last = place;
}

// Shift adds to the selection, and Alt removes from it.
function selectInside(outline, { adding, removing }) {
  const inside = pointsInside(view.map.grid, outline, view.visible);
  const without = new Set(removing ? inside : []);
  const kept = adding || removing ? state.selection.filter((node) => !without.has(node)) : [];
  select(removing ? kept : [...new Set([...kept, ...inside])], [...(adding || removing ? view.outlines : []), outline]);
}

// The place between two fingers stays between them.
function pinch(pointer, place) {
  const [other] = [...fingers].filter(([id]) => id !== pointer).map(([, there]) => there);
  const before = fingers.get(pointer);
  fingers.set(pointer, place);
  const middle = (a, b) => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
  const unit = unitOf(sizeOf(view.canvas)), [from, to] = [middle(before, other), middle(place, other)];
  moveTo(view.camera.x - (to[0] - from[0]) * unit, view.camera.y + (to[1] - from[1]) * unit);
  if (apart(before, other) > 0) zoomBy(apart(place, other) / apart(before, other), ...to);
}

function wheel(event) {
  if (!wheelZooms && !event.ctrlKey) return; // with Ctrl: the pinch of a touchpad
  event.preventDefault();
  const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
  zoomBy(Math.exp(clamp(-event.deltaY * lines, -200, 200) * (event.ctrlKey ? 0.01 : 0.0025)), ...placeOf(event));
}

function key(event) {
  const step = 60 * unitOf(sizeOf(view.canvas)), { x, y } = view.camera;
  const acts = {
    ArrowLeft: () => moveTo(x - step, y), ArrowRight: () => moveTo(x + step, y),
    ArrowUp: () => moveTo(x, y + step), ArrowDown: () => moveTo(x, y - step),
    "+": () => zoomBy(1 / 0.6), "=": () => zoomBy(1 / 0.6), "-": () => zoomBy(0.6), Home: goHome,
  };
  if (event.ctrlKey || event.metaKey || !acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
}

// ------------------------------------------------------------------------------------------------ tooltip

let hovered = null;
function hover(place, event) {
  const waiting = hovered !== null;
  hovered = { place, event };
  if (!waiting) requestAnimationFrame(showTip); // at most once per frame
}

function showTip() {
  if (!hovered || drag) { hovered = null; return; }
  const { place, event } = hovered;
  hovered = null;
  const node = nodeNear(place, event);
  if (node === undefined || event.pointerType === "touch") { point(null); return; }
  if (node !== view.pointed) view.tip.replaceChildren(el("strong", {}, short(view.map.ids[node], 60)), attributes(node, MOST_ATTRIBUTES));
  point(node);
  const box = view.div.getBoundingClientRect();
  const left = event.clientX - box.left, top = event.clientY - box.top;
  const { offsetWidth: width, offsetHeight: height } = view.tip;
  view.tip.style.setProperty("left", `${Math.max(4, left + 16 + width > box.width ? left - width - 16 : left + 16)}px`);
  view.tip.style.setProperty("top", `${Math.max(4, Math.min(top - height / 2, box.height - height - 4))}px`);
}

// Mark a node as the one under the pointer; null for none.
function point(node) {
  view.tip.hidden = node === null;
  if (node === null) hovered = null;
  if (node !== view.pointed) { view.pointed = node; repaint(); }
}
