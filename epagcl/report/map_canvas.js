// The picture of the map: where points are on the screen, the points themselves, and the marks above them.
// Points are blended into an array of pixels, which draws 100,000 of them in a few hundredths of a second in any
// browser, with or without a graphics card.

const PHASES = 4; // discs are prepared at quarters of a pixel, so that points move smoothly
const FADED = 0.12; // opacity of points outside a selection

// ------------------------------------------------------------------------------------------------ places

// The camera is { x, y, zoom }: the centre of the picture, and how much closer it is than the whole map.
const unitOf = ({ width, height }) => Math.max(view.home.width / width, view.home.height / height) / view.camera.zoom; // of the map, per pixel
const sizeOf = (canvas) => ({ width: Math.max(1, canvas.clientWidth), height: Math.max(1, canvas.clientHeight) });

function toScreen(x, y, size = sizeOf(view.canvas)) {
  const unit = unitOf(size);
  return [size.width / 2 + (x - view.camera.x) / unit, size.height / 2 - (y - view.camera.y) / unit];
}

function toMap(left, top, size = sizeOf(view.canvas)) {
  const unit = unitOf(size);
  return [view.camera.x + (left - size.width / 2) * unit, view.camera.y - (top - size.height / 2) * unit];
}

function homeOf(map) {
  const span = (values) => {
    const [low, high] = extent(values);
    return { centre: (low + high) / 2, length: 1.08 * (high - low) || 2 };
  };
  const x = span(map.x), y = span(map.y);
  return { x: x.centre, y: y.centre, width: x.length, height: y.length };
}

// ------------------------------------------------------------------------------------------------ drawing

let requested = 0;
// Draw in the next frame, at most once.
function repaint() { requested ||= requestAnimationFrame(paint); }

function paint() {
  cancelAnimationFrame(requested);
  requested = 0;
  const { canvas } = view, size = sizeOf(canvas);
  if (!view.map || !view.home || !canvas.clientWidth) return;
  const ratio = root.dataset.print ? Math.max(2, devicePixelRatio) : devicePixelRatio;
  const started = performance.now();
  paintOnto(canvas, size, ratio);
  view.milliseconds = performance.now() - started;
  view.div.dispatchEvent(new Event("painted"));
}

function paintOnto(canvas, size, ratio) {
  const width = Math.round(size.width * ratio), height = Math.round(size.height * ratio);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  if (view.image?.width !== width || view.image.height !== height) view.image = context.createImageData(width, height);
  paintPoints(view.image, size, ratio);
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.putImageData(view.image, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  paintMarks(context, size);
  paintOutlines(context, size);
}

function paintPoints(image, size, ratio) {
  const { map, groups, hidden, chosen } = view;
  const [red, green, blue] = rgb(css("--panel"));
  new Uint32Array(image.data.buffer).fill(new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0]);
  const diameter = ratio * clamp(16 - 2.7 * Math.log10(map.order.length), 2.5, 10);
  // Points outside a selection are faint and below the others.
  const passes = chosen ? [[FADED, 0], [1, 1]] : [[map.ids.length > 20000 ? 0.75 : 0.85, undefined]];
  for (const [opacity, part] of passes) {
    const discs = discsOf(diameter, opacity);
    for (const group of groups) if (!hidden.has(group.rank)) paintGroup(image, group, discs, ratio / unitOf(size), part);
  }
}

// Blend the discs of a group into the image; of its selected (`part` 1) or its other nodes (0) only, if there is a selection.
function paintGroup(image, group, { side, masks }, scale, part) {
  const { nodes, at } = group, shades = shadesOf(group);
  const { map: { x, y }, camera, chosen } = view, { width, height } = image;
  const pixels = new Uint8Array(image.data.buffer);
  const originX = width / 2 - side / 2, originY = height / 2 - side / 2; // the corner of a disc at the centre
  for (let k = 0; k < nodes.length; k++) {
    const node = nodes[k];
    if (chosen && chosen[node] !== part) continue;
    const left = originX + (x[node] - camera.x) * scale, top = originY - (y[node] - camera.y) * scale;
    const column = Math.floor(left), row = Math.floor(top);
    if (column <= -side || row <= -side || column >= width || row >= height) continue;
    const mask = masks[Math.floor((top - row) * PHASES) * PHASES + Math.floor((left - column) * PHASES)];
    const [red, green, blue] = at ? shades[Math.round(at[k] * (SHADES - 1))] : shades[0];
    const firstRow = Math.max(0, -row), lastRow = Math.min(side, height - row);
    const firstColumn = Math.max(0, -column), lastColumn = Math.min(side, width - column);
    for (let r = firstRow; r < lastRow; r++) {
      let pixel = 4 * ((row + r) * width + column + firstColumn);
      for (let c = firstColumn; c < lastColumn; c++, pixel += 4) {
        const cover = mask[r * side + c]; // 0 to 256
        if (!cover) continue;
        pixels[pixel] += ((red - pixels[pixel]) * cover) >> 8;
        pixels[pixel + 1] += ((green - pixels[pixel + 1]) * cover) >> 8;
        pixels[pixel + 2] += ((blue - pixels[pixel + 2]) * cover) >> 8;
      }
    }
  }
}

// Discs with smooth edges, as opacities from 0 to 256, one for each quarter of a pixel across and down.
function discsOf(diameter, opacity) {
  const side = Math.ceil(diameter) + 2;
  const masks = Array.from({ length: PHASES * PHASES }, (_, phase) => {
    const x = side / 2 + (phase % PHASES) / PHASES, y = side / 2 + Math.floor(phase / PHASES) / PHASES;
    return Uint16Array.from({ length: side * side }, (_, pixel) => {
      const distance = Math.hypot((pixel % side) + 0.5 - x, Math.floor(pixel / side) + 0.5 - y);
      return Math.round(256 * opacity * clamp(diameter / 2 + 0.5 - distance, 0, 1));
    });
  });
  return { side, masks };
}

// ------------------------------------------------------------------------------------------------ marks

function ring(context, [x, y], radius, colour, lineWidth) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  Object.assign(context, { strokeStyle: colour, lineWidth });
  context.stroke();
}

// The chosen node, its label and its neighbours, and the node under the pointer.
function paintMarks(context, size) {
  const { x, y, ids } = view.map;
  const place = (node) => toScreen(x[node], y[node], size);
  if (view.pointed !== null) ring(context, place(view.pointed), 7, css("--ink"), 1.5);
  if (state.node === null) return;
  const centre = place(state.node), near = neighbours(state.node).map(({ node }) => place(node));
  Object.assign(context, { globalAlpha: 0.6, strokeStyle: css("--soft"), lineWidth: 1 });
  context.beginPath();
  for (const end of near) { context.moveTo(...centre); context.lineTo(...end); }
  context.stroke();
  context.globalAlpha = 1;
  for (const end of near) ring(context, end, 6, css("--ink"), 1.5);
  ring(context, centre, 9, css("--accent"), 3);
  paintLabel(context, short(ids[state.node]), centre, size);
}

function paintLabel(context, text, [x, y], { width }) {
  Object.assign(context, { font: font(13), textAlign: "center", textBaseline: "middle" });
  const wide = context.measureText(text).width + 12;
  const left = clamp(x - wide / 2, 4, Math.max(4, width - wide - 4));
  const top = y > 40 ? y - 36 : y + 14;
  context.beginPath();
  context.roundRect(left, top, wide, 22, 5);
  Object.assign(context, { fillStyle: css("--panel"), strokeStyle: css("--line"), lineWidth: 1 });
  context.fill();
  context.stroke();
  context.fillStyle = css("--ink");
  context.fillText(text, left + wide / 2, top + 11.5);
}

// The outlines of selections, and of the one being drawn. They belong to the map and move with it.
function paintOutlines(context, size) {
  Object.assign(context, { strokeStyle: css("--ink"), lineWidth: 1.5 });
  context.setLineDash([2, 3]);
  for (const outline of [...view.outlines, ...(view.outline ? [view.outline] : [])]) {
    context.beginPath();
    for (const corner of outline) context.lineTo(...toScreen(...corner, size));
    context.closePath();
    context.stroke();
  }
  context.setLineDash([]);
}
