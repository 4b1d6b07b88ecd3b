// What a node shares with its nearest neighbours: edges and features, without labels.

const TOP = { features: 5, hubs: 3 };

// The entries of a flat list that belong to a node.
const ofNode = (list, node, each) => list.slice(node * each, (node + 1) * each);

function sharedEdge(node, place) {
  const { drivers, map } = view;
  if (!drivers) return null;
  const common = drivers.common[node * map.k + place];
  const words = [drivers.joined[node * map.k + place] ? "edge" : null, common ? `${common} common` : null].filter(Boolean);
  return words.length ? el("small", {}, `  · ${words.join(", ")}`) : null;
}

function shared(node) {
  const { drivers, map } = view;
  if (!drivers) return [];
  const joined = ofNode(drivers.joined, node, map.k), common = ofNode(drivers.common, node, map.k);
  const linked = joined.filter(Boolean).length, related = common.filter(Boolean).length;
  const hubs = ofNode(drivers.hubs, node, TOP.hubs).map((hub, i) => [hub, drivers.hub_counts[node * TOP.hubs + i]]).filter(([hub, times]) => hub >= 0 && times > 1);
  return [
    el("h4", {}, "What they share with this node"),
    el("p", { id: "shared-edges" }, `Edges: ${linked} of ${map.k} are joined to it, ${related} of ${map.k} have a neighbour in common`,
      hubs.length ? ", most often " : ".", hubs.flatMap(([hub, times], i) => [i ? ", " : "",
        el("button", { class: "plain", type: "button", onclick: () => choose(hub, true) }, short(map.ids[hub], 24)), ` (${times})`]), hubs.length ? "." : ""),
    sharedFeatures(node),
  ];
}

function sharedFeatures(node) {
  const { drivers } = view;
  const [own, mixed, others] = ofNode(drivers.similarity, node, 3);
  const top = ofNode(drivers.features, node, TOP.features).map((feature, i) => [drivers.names[feature], drivers.parts[node * TOP.features + i]])
    .filter(([name, part]) => name !== undefined && part >= 0.0005);
  const total = own + mixed + others;
  if (!top.length) return el("p", { id: "shared-features" }, "Features: nothing in common.");
  const averaged = mixed || others;
  return el("div", { id: "shared-features" },
    el("p", {}, `Features${averaged ? ", averaged with those of neighbours" : ""}: mean similarity ${decimal(total, 2)}`,
      averaged ? `; ${decimal(own, 2)} of it from own features alone, ${decimal(others, 2)} from neighbours’ alone.` : ".", " The largest parts:"),
    el("ul", { class: "rows" }, top.map(([name, part]) => el("li", { class: "row pair" },
      el("span", { class: "name", title: name }, name), el("span", { class: "number" }, decimal(part, 3))))));
}
