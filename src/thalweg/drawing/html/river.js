// The river: tokens as columns, layers upwards, ribbons as wide as the share they carry.

const LAYER_HEIGHT = 84;
const MAX_HEIGHT = 620;
const LABEL_HEIGHT = 92; // of the longest token labels
const LETTER_HEIGHT = 5.4; // of a letter in a slanted label
const SIDE = 62; // width of the layer names

function makeRiver(app) {
  const chained = app.data.methods.filter((method) => method.layers);
  if (!chained.length) return null;
  const body = section(
    app.root,
    'river',
    'River',
    'Tokens are columns, layers go upwards. The target is at the top and its shares run down to the input tokens; ribbons are as wide as the share they carry. Point at a node to trace it.',
    ['river', 'share', 'target'],
  );
  const canvas = el('canvas', { tabindex: '0', role: 'img', 'aria-describedby': 'river-status river-table' });
  const holder = el('div', { class: 'drawing' }, canvas);
  const status = el('p', { class: 'status', id: 'river-status', role: 'status' });
  const note = el('p', { class: 'legend' });
  const hidden = el('div', { class: 'unseen', id: 'river-table' });
  body.append(holder, status, note, hidden);
  let scene = null;
  let base = null;
  let cursor = null;

  // The selected method, or the first one with per-layer maps if it has none.
  function compute() {
    const method = app.method.layers ? app.method : chained[0];
    const count = app.data.tokens.labels.length;
    const target = app.state.target;
    if (method.chain === 'flow') return computeFlow(method, target, count);
    const { levels, masses, dropped } = spread(method, target, count);
    const ribbons = [];
    for (let level = 1; level <= levels; level++) ribbons.push(links(method, masses, level, count, app.layout));
    return { method, count, levels, masses, dropped, ribbons };
  }

  function computeFlow(method, target, count) {
    const from = target[0] === POOLED ? count - 1 : target[target.length - 1];
    const row = scoresOfTarget(method, target) || new Float64Array(count);
    const to = app.state.source ? app.state.source[0] : row.indexOf(Math.max(...row));
    const flow = largestFlow(method, from, to, count, app.layout);
    const ribbons = flow.ribbons.map((level) => widest(level.map((ribbon) => ({ ...ribbon, value: ribbon.value / (flow.value || 1) }))));
    const masses = flow.masses.map((level) => level.map((value) => value / (flow.value || 1)));
    return { method, count, levels: flow.levels, masses, dropped: [], ribbons, flow: flow.value, from, to };
  }

  function measure() {
    const width = Math.max(280, holder.clientWidth);
    const { levels } = scene;
    const step = Math.min(LAYER_HEIGHT, (MAX_HEIGHT - LABEL_HEIGHT) / levels);
    const longest = Math.max(...app.layout.units.map(({ label: text }) => Math.min(14, text.length)));
    const columns = app.layout.units.length;
    const side = width < 560 ? 34 : SIDE;
    const around = width < 560 ? 14 : 40; // half the widest ribbon of the first and last column
    const column = (width - side - 44 - 2 * around) / columns;
    return {
      width,
      height: Math.round(step * levels + Math.min(LABEL_HEIGHT, LETTER_HEIGHT * longest + 24) + 28),
      side,
      left: side + around,
      step,
      column,
      scale: Math.max(26, Math.min(96, column * 2.6)),
      x: (unit) => side + around + (unit + 0.5) * column,
      y: (level) => 28 + (levels - level) * step,
    };
  }

  function update() {
    scene = compute();
    scene.place = measure();
    scene.shares = scene.masses.map((masses) => overUnits(masses, app.layout, false));
    base = null;
    cursor = null;
    draw();
    describe();
  }

  function draw() {
    const { place: at } = scene;
    const context = canvasContext(canvas, at.width, at.height);
    if (base) {
      context.save();
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.drawImage(base, 0, 0);
      context.restore();
    } else {
      drawAll(context);
      base = document.createElement('canvas');
      base.width = canvas.width;
      base.height = canvas.height;
      base.getContext('2d').drawImage(canvas, 0, 0);
    }
    if (cursor) drawTrace(context);
  }

  function drawAll(context) {
    const { place: at, levels, ribbons, shares } = scene;
    const theme = colours();
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = 'middle';
    for (let level = 0; level <= levels; level++) {
      context.fillStyle = css(theme.ink, 0.08);
      context.fillRect(at.side, at.y(level) - 0.5, at.width - at.side - 40, 1);
      context.fillStyle = css(theme.ink, 0.62);
      context.textAlign = 'right';
      context.fillText(levelName(level), at.side - 2, at.y(level));
      if (!level) continue;
      const rest = ribbons[level - 1].rest + (scene.dropped[level - 1] || 0);
      if (rest >= 0.005) {
        context.textAlign = 'left';
        context.fillText(`+${(100 * rest).toFixed(0)}%`, at.width - 36, (at.y(level) + at.y(level - 1)) / 2);
      }
    }
    ribbons.forEach(({ kept }, index) => drawRibbons(context, kept, index + 1, 0.6));
    for (let level = 0; level <= levels; level++) drawNodes(context, shares[level], level, theme);
    drawLabels(context, shares[0], theme);
    drawTop(context, theme);
  }

  function levelName(level) {
    if (!level) return 'input';
    const { role } = app.data.blocks[level - 1] || {};
    const kind = role && role !== 'self' ? role : '';
    if (scene.place.width < 560) return `${level - 1}${kind.slice(0, 1)}`;
    return kind ? `${level - 1} ${kind}` : `layer ${level - 1}`;
  }

  // Ribbons lie side by side at both ends, ordered by their other end.
  function drawRibbons(context, ribbons, level, alpha) {
    const { place: at } = scene;
    const theme = colours();
    const width = (value) => Math.max(0.6, Math.abs(value) * at.scale);
    const offsets = { top: new Map(), bottom: new Map() };
    const ends = (side, key, other) => {
      const groups = new Map();
      for (const ribbon of ribbons) groups.set(ribbon[key], [...(groups.get(ribbon[key]) || []), ribbon]);
      for (const [, group] of groups) {
        group.sort((a, b) => a[other] - b[other]);
        let start = -group.reduce((sum, { value }) => sum + width(value), 0) / 2;
        for (const ribbon of group) {
          offsets[side].set(ribbon, start);
          start += width(ribbon.value);
        }
      }
    };
    ends('top', 'from', 'to');
    ends('bottom', 'to', 'from');
    const [upper, lower] = [at.y(level), at.y(level - 1)];
    const middle = (upper + lower) / 2;
    for (const ribbon of ribbons) {
      const size = width(ribbon.value);
      const a = at.x(ribbon.from) + offsets.top.get(ribbon);
      const b = at.x(ribbon.to) + offsets.bottom.get(ribbon);
      context.beginPath();
      context.moveTo(a, upper);
      context.bezierCurveTo(a, middle, b, middle, b, lower);
      context.lineTo(b + size, lower);
      context.bezierCurveTo(b + size, middle, a + size, middle, a + size, upper);
      context.closePath();
      const own = ribbon.from === ribbon.to;
      const positive = own ? mix(theme.more, theme.ink, 0.45) : theme.more;
      context.fillStyle = css(ribbon.value < 0 ? theme.less : positive, own ? alpha * 0.7 : alpha);
      context.fill();
    }
  }

  function drawNodes(context, shares, level, theme) {
    const { place: at } = scene;
    shares.forEach((share, unit) => {
      if (Math.abs(share) < MIN_SHARE) return;
      const width = Math.max(2, Math.abs(share) * at.scale);
      context.fillStyle = css(share < 0 ? theme.less : theme.more);
      context.fillRect(at.x(unit) - width / 2, at.y(level) - 1.5, width, 3);
    });
  }

  // Labels of as many tokens as fit, largest shares first.
  function drawLabels(context, shares, theme) {
    const { place: at } = scene;
    const taken = [];
    const order = [...shares.keys()].sort((a, b) => Math.abs(shares[b]) - Math.abs(shares[a]));
    const strongest = extent(shares);
    for (const unit of order) {
      const x = at.x(unit);
      if (taken.some((other) => Math.abs(other - x) < 12.5)) continue;
      taken.push(x);
      label(context, app.layout.units[unit].name, x, 0, css(theme.ink, 0.5 + (0.5 * Math.abs(shares[unit])) / strongest));
    }
  }

  function label(context, text, x, level, style) {
    const { place: at } = scene;
    context.save();
    context.translate(x, at.y(level) + 10);
    context.rotate(-Math.PI / 3);
    context.textAlign = 'right';
    context.fillStyle = style;
    context.fillText(truncate(text, 14), 0, 0);
    context.restore();
  }

  function drawTop(context, theme) {
    const { place: at } = scene;
    const shares = scene.shares[scene.levels];
    const unit = shares.indexOf(Math.max(...shares));
    if (unit < 0 || !shares[unit]) return;
    context.fillStyle = css(theme.ink);
    context.font = `600 12px ${getComputedStyle(document.body).fontFamily}`;
    const text = app.state.target[0] === POOLED ? 'all positions' : truncate(app.layout.units[unit].name, 18);
    const half = context.measureText(text).width / 2;
    context.textAlign = 'center';
    context.fillText(text, Math.max(at.side + half, Math.min(at.width - half - 4, at.x(unit))), 12);
  }

  function drawTrace(context) {
    const { method, count, masses, levels, place: at } = scene;
    const theme = colours();
    context.fillStyle = css(theme.paper, 0.78);
    context.fillRect(at.side, at.y(levels) - 4, at.width - at.side, at.y(0) - at.y(levels) + 8);
    const { places, label: name } = app.layout.units[cursor.unit];
    if (method.chain !== 'flow') {
      const above = reach(method, levels, cursor.level, places, count);
      for (let level = levels; level > cursor.level; level--) {
        const traced = links(method, masses, level, count, app.layout, above[level - 1]);
        drawRibbons(context, traced.kept, level, 0.85);
      }
      const below = Array.from({ length: cursor.level + 1 }, () => new Float64Array(count));
      for (const place of places) below[cursor.level][place] = masses[cursor.level][place];
      for (let level = cursor.level; level > 0; level--) {
        for (let place = 0; place < count; place++) {
          if (below[level][place]) method.layers.add((level - 1) * count + place, below[level][place], below[level - 1]);
        }
        drawRibbons(context, links(method, below, level, count, app.layout).kept, level, 0.85);
      }
    } else {
      scene.ribbons.forEach(({ kept }, index) => {
        const touching = kept.filter(
          ({ from, to }) => (index + 1 === cursor.level && from === cursor.unit) || (index === cursor.level && to === cursor.unit),
        );
        drawRibbons(context, touching, index + 1, 0.85);
      });
    }
    context.strokeStyle = css(theme.ink);
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(at.x(cursor.unit), at.y(cursor.level), 5, 0, 2 * Math.PI);
    context.stroke();
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    context.clearRect(0, at.y(0) + 5, at.width, LABEL_HEIGHT);
    label(context, name, at.x(cursor.unit), 0, css(theme.ink));
  }

  function describeNode(node) {
    const { units } = app.layout;
    const share = scene.shares[node.level][node.unit];
    const where = node.level ? `after layer ${node.level - 1}` : 'in the input';
    return `${units[node.unit].name} ${where} carries ${formatPercent(share)} of ${scene.method.chain === 'flow' ? 'the flow' : app.names().target}`;
  }

  function trace(node, announce) {
    if (!scene || (node === null) === (cursor === null) && (!node || (node.level === cursor.level && node.unit === cursor.unit))) return;
    cursor = node && node.level <= scene.levels && node.unit < app.layout.units.length ? node : null;
    if (cursor && announce) status.textContent = `${describeNode(cursor)}.`;
    draw();
  }

  function describe() {
    const { method, levels } = scene;
    const instead = method === app.method ? '' : `${app.method.name} has no per-layer maps, so the river shows ${method.name}. `;
    const names = app.names();
    const best = largest(scene.shares[0], 3).map(({ index, value }) => `${app.layout.units[index].name} ${formatPercent(value)}`).join(', ');
    const { labels } = app.data.tokens;
    status.textContent = method.chain === 'flow'
      ? `${instead}A maximum flow from ${nameOf(app.data.tokens, scene.from)} to ${nameOf(app.data.tokens, scene.to)} with attention as capacities: ${formatNumber(scene.flow)}. Other flows may be equally large. Select a source to see its flow.`
      : `${instead}By ${method.name}, ${names.target} traces back to ${best}.`;
    const rests = scene.ribbons.map(({ rest }, i) => rest + (scene.dropped[i] || 0));
    const largestRest = Math.max(...rests);
    const dropped = Math.max(0, ...scene.dropped);
    note.textContent = largestRest >= 0.005
      ? `Ribbons below ${formatPercent(MIN_SHARE)} are not drawn; together they carry up to ${formatPercent(largestRest)} between two layers (percentages on the right)` +
        `${dropped >= 0.005 ? `, including up to ${formatPercent(dropped)} in links that are not stored in this file` : ''}.`
      : 'All ribbons are drawn.';
    canvas.setAttribute('aria-label', `River of ${names.target} by ${method.name}. Arrow keys move between nodes.`);
    const rows = [];
    for (let level = levels; level >= 0; level--) {
      const list = largest(scene.shares[level], 5).map(({ index, value }) => `${app.layout.units[index].name} ${formatPercent(value)}`);
      rows.push([levelName(level), list.join(', ')]);
    }
    hidden.replaceChildren(table('Largest shares of the target by layer', ['layer', 'positions'], rows));
  }

  function nodeAt(event) {
    const box = canvas.getBoundingClientRect();
    const { place: at, levels } = scene;
    const unit = Math.floor((event.clientX - box.left - at.left) / at.column);
    const level = Math.round(levels - (event.clientY - box.top - 28) / at.step);
    const inside = unit >= 0 && unit < app.layout.units.length;
    return inside ? { unit, level: Math.max(0, Math.min(levels, level)) } : null;
  }

  let waiting = false;
  canvas.addEventListener('pointermove', (event) => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const node = nodeAt(event);
      trace(node, false);
      if (node) app.tip.show(event, describeNode(node));
      else app.tip.hide();
    });
  });
  canvas.addEventListener('pointerleave', () => {
    requestAnimationFrame(() => {
      trace(null, false);
      app.tip.hide();
    });
  });
  canvas.addEventListener('click', (event) => {
    const node = nodeAt(event);
    if (node) app.choose(app.layout.units[node.unit]);
  });
  canvas.addEventListener('focus', () => {
    app.node = null; // keys start at the target, not at the token last pointed at
    trace(null, false);
  });
  canvas.addEventListener('keydown', (event) => {
    const node = cursor || { level: scene.levels, unit: Math.max(0, scene.shares[scene.levels].indexOf(Math.max(...scene.shares[scene.levels]))) };
    const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 0], ArrowDown: [-1, 0] };
    if (event.key === 'Enter') app.choose(app.layout.units[node.unit]);
    if (event.key === 'Escape') trace(null, false);
    if (!(event.key in steps)) return;
    event.preventDefault();
    const [up, right] = steps[event.key];
    const level = Math.max(0, Math.min(scene.levels, node.level + up));
    trace({ level, unit: Math.max(0, Math.min(app.layout.units.length - 1, node.unit + right)) }, true);
  });
  new ResizeObserver(() => {
    if (!scene || scene.place.width === Math.max(280, holder.clientWidth)) return;
    const kept = cursor;
    update();
    if (kept) trace(kept, true);
  }).observe(holder);

  return { update, trace: (node) => trace(node, false) };
}

function truncate(text, length) {
  const all = Array.from(text);
  return all.length > length ? `${all.slice(0, length - 1).join('')}…` : text;
}
