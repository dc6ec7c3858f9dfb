// Arithmetic of the river: the share that passes each position of each layer, and the links that carry it.

const MIN_SHARE = 0.002; // of the target: ribbons below are not drawn
const MAX_RIBBONS = 260; // between two layers

// Shares of the target at every level, from the top, where it is 1, down to the input.
function spread(method, target, count) {
  const levels = method.layers.count / count;
  const masses = Array.from({ length: levels + 1 }, () => new Float64Array(count));
  const dropped = new Float64Array(levels);
  const start = target.includes(POOLED) ? Array.from({ length: count }, (_, place) => place) : target;
  for (const place of start) masses[levels][place] = 1 / start.length;
  for (let level = levels; level > 0; level--) {
    for (let place = 0; place < count; place++) {
      const mass = masses[level][place];
      if (mass) dropped[level - 1] += method.layers.add((level - 1) * count + place, mass, masses[level - 1]);
    }
  }
  return { levels, masses, dropped };
}

// Part of each position's share, at the levels above, that passes through these places of one level.
function reach(method, levels, level, places, count) {
  const parts = Array.from({ length: levels + 1 }, () => new Float64Array(count));
  for (const place of places) parts[level][place] = 1;
  const { layers } = method;
  for (let above = level + 1; above <= levels; above++) {
    for (let place = 0; place < count; place++) {
      const row = (above - 1) * count + place;
      const first = row * layers.kept;
      let sum = 0;
      for (let j = 0; j < layers.kept; j++) {
        sum += layers.codes[first + j] * parts[above - 1][layers.columns ? layers.columns[first + j] : j];
      }
      parts[above][place] = sum * layers.scale[row];
    }
  }
  return parts;
}

// Links between two levels as ribbons between units, {from (above), to (below), value}: the widest ones, and the sum of
// all others. `part` weights each link by its lower end, to trace a token.
function links(method, masses, level, count, { units, unitOf }, part) {
  const size = units.length;
  const sums = new Float32Array(size * size);
  const { layers } = method;
  for (let place = 0; place < count; place++) {
    const mass = masses[level][place];
    const above = unitOf[place];
    if (!mass || above < 0) continue;
    const row = (level - 1) * count + place;
    const first = row * layers.kept;
    const unit = layers.scale[row] * mass;
    for (let j = 0; j < layers.kept; j++) {
      const code = layers.codes[first + j];
      if (!code) continue;
      const below = layers.columns ? layers.columns[first + j] : j;
      if (unitOf[below] >= 0) sums[above * size + unitOf[below]] += code * unit * (part ? part[below] : 1);
    }
  }
  const ribbons = [];
  let thin = 0;
  for (let i = 0; i < sums.length; i++) {
    if (Math.abs(sums[i]) < MIN_SHARE) thin += Math.abs(sums[i]);
    else ribbons.push({ from: Math.floor(i / size), to: i % size, value: sums[i] });
  }
  return widest(ribbons, thin);
}

function widest(ribbons, thin = 0) {
  const sorted = ribbons.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const kept = sorted.filter(({ value }, i) => i < MAX_RIBBONS && Math.abs(value) >= MIN_SHARE);
  const rest = sorted.slice(kept.length).reduce((sum, { value }) => sum + Math.abs(value), thin);
  return { kept, rest };
}

// A maximum flow (Dinic) from a position at the top to one of the input, with link weights as capacities. Uses the
// `maxLinks` widest links of each position. Returns the value, and the flow as ribbons for every level.
function largestFlow(method, source, sink, count, { units, unitOf }, maxLinks = 48) {
  const levels = method.layers.count / count;
  const node = (level, place) => level * count + place;
  const edges = Array.from({ length: (levels + 1) * count }, () => []);
  const ends = [];
  const capacity = [];
  const { layers } = method;
  for (let level = 1; level <= levels; level++) {
    for (let place = 0; place < count; place++) {
      const row = (level - 1) * count + place;
      const first = row * layers.kept;
      let chosen = Array.from({ length: layers.kept }, (_, j) => first + j).filter((j) => layers.codes[j] > 0);
      if (chosen.length > maxLinks) chosen = chosen.sort((a, b) => layers.codes[b] - layers.codes[a]).slice(0, maxLinks);
      for (const j of chosen) {
        const below = layers.columns ? layers.columns[j] : j - first;
        edges[node(level, place)].push(ends.length);
        edges[node(level - 1, below)].push(ends.length + 1);
        ends.push(node(level - 1, below), node(level, place));
        capacity.push(layers.codes[j] * layers.scale[row], 0);
      }
    }
  }
  const [top, bottom] = [node(levels, source), node(0, sink)];
  const depth = new Int32Array(edges.length);
  const next = new Int32Array(edges.length);
  const measure = () => {
    depth.fill(-1);
    depth[top] = 0;
    const queue = [top];
    for (let i = 0; i < queue.length; i++) {
      for (const edge of edges[queue[i]]) {
        if (capacity[edge] > 1e-6 && depth[ends[edge]] < 0) {
          depth[ends[edge]] = depth[queue[i]] + 1;
          queue.push(ends[edge]);
        }
      }
    }
    return depth[bottom] >= 0;
  };
  const push = (at, limit) => {
    if (at === bottom) return limit;
    for (; next[at] < edges[at].length; next[at]++) {
      const edge = edges[at][next[at]];
      if (capacity[edge] > 1e-6 && depth[ends[edge]] === depth[at] + 1) {
        const sent = push(ends[edge], Math.min(limit, capacity[edge]));
        if (sent > 0) {
          capacity[edge] -= sent;
          capacity[edge ^ 1] += sent;
          return sent;
        }
      }
    }
    return 0;
  };
  let value = 0;
  while (measure()) {
    next.fill(0);
    for (let sent = push(top, Infinity); sent > 0; sent = push(top, Infinity)) value += sent;
  }
  const sums = Array.from({ length: levels }, () => new Map());
  const masses = Array.from({ length: levels + 1 }, () => new Float64Array(count));
  masses[levels][source] = value;
  for (let edge = 0; edge < ends.length; edge += 2) {
    const sent = capacity[edge + 1];
    const [above, below] = [ends[edge + 1], ends[edge]];
    const level = Math.floor(above / count);
    if (sent > 1e-6) masses[level - 1][below % count] += sent;
    const [from, to] = [unitOf[above % count], unitOf[below % count]];
    if (sent <= 1e-6 || from < 0 || to < 0) continue;
    const key = from * units.length + to;
    sums[level - 1].set(key, (sums[level - 1].get(key) || 0) + sent);
  }
  const ribbons = sums.map((flows) =>
    Array.from(flows, ([key, sent]) => ({ from: Math.floor(key / units.length), to: key % units.length, value: sent })),
  );
  return { value, levels, masses, ribbons };
}
