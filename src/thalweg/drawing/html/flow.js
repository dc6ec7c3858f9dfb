// The river's arithmetic: what passes each position in each layer, by which links, and what of it touches one token.

const THINNEST = 0.002; // of what reaches the target: thinner ribbons are folded
const MOST_RIBBONS = 260; // drawn between two layers

// Shares of the target at every level, from the top (where it stands) down to the input.
function spread(method, target, count) {
  const levels = method.layers.count / count;
  const masses = Array.from({ length: levels + 1 }, () => new Float64Array(count));
  const unnamed = new Float64Array(levels);
  const start = target.includes(POOLED) ? Array.from({ length: count }, (_, place) => place) : target;
  for (const place of start) masses[levels][place] = 1 / start.length;
  for (let level = levels; level > 0; level--) {
    for (let place = 0; place < count; place++) {
      const mass = masses[level][place];
      if (mass) unnamed[level - 1] += method.layers.add((level - 1) * count + place, mass, masses[level - 1]);
    }
  }
  return { levels, masses, unnamed };
}

// What of each position's share comes from (below) and leads to (above) the places of one level.
function reach(method, levels, level, places, count) {
  const found = Array.from({ length: levels + 1 }, () => new Float64Array(count));
  for (const place of places) found[level][place] = 1;
  const { layers } = method;
  for (let above = level + 1; above <= levels; above++) {
    for (let place = 0; place < count; place++) {
      const row = (above - 1) * count + place;
      const first = row * layers.kept;
      let sum = 0;
      for (let j = 0; j < layers.kept; j++) {
        sum += layers.codes[first + j] * found[above - 1][layers.columns ? layers.columns[first + j] : j];
      }
      found[above][place] = sum * layers.scale[row];
    }
  }
  return found;
}

// Links between two levels as ribbons between units, {from (above), to (below), value}: the widest, and what the others
// carry together. `part` weighs the lower end of each link, for what touches a token.
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
  const found = [];
  let thin = 0;
  for (let i = 0; i < sums.length; i++) {
    if (Math.abs(sums[i]) < THINNEST) thin += Math.abs(sums[i]);
    else found.push({ from: Math.floor(i / size), to: i % size, value: sums[i] });
  }
  return folded(found, thin);
}

function folded(ribbons, thin = 0) {
  const sorted = ribbons.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const kept = sorted.filter((one, i) => i < MOST_RIBBONS && Math.abs(one.value) >= THINNEST);
  const rest = sorted.slice(kept.length).reduce((sum, one) => sum + Math.abs(one.value), thin);
  return { kept, rest };
}

// One largest flow through the links taken as pipes (Dinic), from a position at the top to one of the input.
// Of each position's links the `widest` are used. Returns the value, and the flow as ribbons for every level.
function largestFlow(method, source, sink, count, { units, unitOf }, widest = 48) {
  const levels = method.layers.count / count;
  const node = (level, place) => level * count + place;
  const heads = Array.from({ length: (levels + 1) * count }, () => []);
  const ends = [];
  const room = [];
  const { layers } = method;
  for (let level = 1; level <= levels; level++) {
    for (let place = 0; place < count; place++) {
      const row = (level - 1) * count + place;
      const first = row * layers.kept;
      let chosen = Array.from({ length: layers.kept }, (_, j) => first + j).filter((j) => layers.codes[j] > 0);
      if (chosen.length > widest) chosen = chosen.sort((a, b) => layers.codes[b] - layers.codes[a]).slice(0, widest);
      for (const j of chosen) {
        const below = layers.columns ? layers.columns[j] : j - first;
        heads[node(level, place)].push(ends.length);
        heads[node(level - 1, below)].push(ends.length + 1);
        ends.push(node(level - 1, below), node(level, place));
        room.push(layers.codes[j] * layers.scale[row], 0);
      }
    }
  }
  const [top, bottom] = [node(levels, source), node(0, sink)];
  const depth = new Int32Array(heads.length);
  const next = new Int32Array(heads.length);
  const measure = () => {
    depth.fill(-1);
    depth[top] = 0;
    const queue = [top];
    for (let i = 0; i < queue.length; i++) {
      for (const edge of heads[queue[i]]) {
        if (room[edge] > 1e-6 && depth[ends[edge]] < 0) {
          depth[ends[edge]] = depth[queue[i]] + 1;
          queue.push(ends[edge]);
        }
      }
    }
    return depth[bottom] >= 0;
  };
  const push = (at, limit) => {
    if (at === bottom) return limit;
    for (; next[at] < heads[at].length; next[at]++) {
      const edge = heads[at][next[at]];
      if (room[edge] > 1e-6 && depth[ends[edge]] === depth[at] + 1) {
        const sent = push(ends[edge], Math.min(limit, room[edge]));
        if (sent > 0) {
          room[edge] -= sent;
          room[edge ^ 1] += sent;
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
    const sent = room[edge + 1];
    const [above, below] = [ends[edge + 1], ends[edge]];
    const level = Math.floor(above / count);
    if (sent > 1e-6) masses[level - 1][below % count] += sent;
    const [from, to] = [unitOf[above % count], unitOf[below % count]];
    if (sent <= 1e-6 || from < 0 || to < 0) continue;
    const key = from * units.length + to;
    sums[level - 1].set(key, (sums[level - 1].get(key) || 0) + sent);
  }
  const ribbons = sums.map((one) =>
    Array.from(one, ([key, sent]) => ({ from: Math.floor(key / units.length), to: key % units.length, value: sent })),
  );
  return { value, levels, masses, ribbons };
}
