// A grid over the points of the map: finds the nearest point, and the points in a region, without looking at all.

const POINTS_PER_CELL = 4;

function gridOf(x, y) {
  const side = Math.max(1, Math.ceil(Math.sqrt(x.length / POINTS_PER_CELL)));
  const [left, right] = extent(x), [low, high] = extent(y);
  const wide = (right - left) / side || 1, tall = (high - low) / side || 1;
  const column = (value) => clamp(Math.floor((value - left) / wide), 0, side - 1);
  const row = (value) => clamp(Math.floor((value - low) / tall), 0, side - 1);
  const cells = Int32Array.from(x, (value, i) => row(y[i]) * side + column(value));
  const start = new Int32Array(side * side + 1); // the nodes of a cell are nodes[start[cell]], …, nodes[start[cell + 1] - 1]
  for (const cell of cells) start[cell + 1]++;
  for (let cell = 0; cell < side * side; cell++) start[cell + 1] += start[cell];
  const next = start.slice(), nodes = new Int32Array(x.length);
  cells.forEach((cell, node) => { nodes[next[cell]++] = node; });
  return { x, y, side, column, row, start, nodes };
}

// Call `visit` with each point of a rectangle.
function eachWithin({ x, y, side, column, row, start, nodes }, x0, x1, y0, y1, visit) {
  const first = column(x0), last = column(x1);
  for (let r = row(y0); r <= row(y1); r++) {
    for (let at = start[r * side + first]; at < start[r * side + last + 1]; at++) {
      const node = nodes[at];
      if (x[node] >= x0 && x[node] <= x1 && y[node] >= y0 && y[node] <= y1) visit(node);
    }
  }
}

// The visible point nearest to a place, at most `reach` away; undefined if there is none.
function nearestPoint(grid, x, y, reach, visible) {
  let best, least = reach * reach;
  eachWithin(grid, x - reach, x + reach, y - reach, y + reach, (node) => {
    const distance = (grid.x[node] - x) ** 2 + (grid.y[node] - y) ** 2;
    if (visible[node] && distance <= least) [best, least] = [node, distance];
  });
  return best;
}

// The visible points inside a polygon, given as [x, y] of its corners.
function pointsInside(grid, polygon, visible) {
  const [x0, x1] = extent(polygon.map(([x]) => x)), [y0, y1] = extent(polygon.map(([, y]) => y));
  const found = [];
  eachWithin(grid, x0, x1, y0, y1, (node) => { if (visible[node] && contains(polygon, grid.x[node], grid.y[node])) found.push(node); });
  return found;
}

// Whether a ray from the point to the right crosses the sides of the polygon an odd number of times.
function contains(polygon, x, y) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [ax, ay] = polygon[i], [bx, by] = polygon[j];
    if (ay > y !== by > y && x < ax + ((bx - ax) * (y - ay)) / (by - ay)) inside = !inside;
  }
  return inside;
}
