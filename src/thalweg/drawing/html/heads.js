// Maps of heads beside what the certificate says about each of them.

const MARKS = { identifiable: '●', 'identifiable given the keys': '◐', 'not identifiable': '○' };
const THUMB = 44;
const KINDS = {
  raw: 'attention as it is',
  effective: 'attention without the part that has no effect',
  null: 'the part that has no effect; orange is negative',
  width: 'how far each weight could move with the same output',
};

function makeHeads(app) {
  const { certificate, maps, intervals } = app.data;
  const all = headsOf(app.data);
  if (!all.length) return null;
  const body = section(
    app.root,
    'heads',
    'Layers and heads',
    certificate
      ? 'Whether a head’s attention can be read: do other weights give exactly the same output? Choose a head for its map and its verdict.'
      : 'Where each head looks. Whether that can be believed was not computed for a text of this length. Choose a head for its map.',
  );
  const summary = el('p', { class: 'summary', text: certificate ? certificate.summary : '' });
  const legend = el('p', { class: 'legend marks' });
  for (const [verdict, mark] of Object.entries(certificate ? MARKS : {})) {
    const count = certificate.counts[verdict] || 0;
    legend.append(el('span', {}, el('span', { class: `mark ${markClass(verdict)}`, text: mark }), ` ${verdict} (${count})`));
  }
  const grid = el('div', { class: 'grid', role: 'group', 'aria-label': 'Heads by layer' });
  const detail = el('div', { class: 'detail' });
  const kinds = Object.keys(KINDS).filter((kind) => kind === 'raw' || (kind === 'width' ? intervals.length : certificate));
  const names = { raw: 'raw', effective: 'effective', null: 'null component', width: 'interval width' };
  body.append(summary, legend);
  if (maps.length) {
    body.append(el('div', { class: 'controls' }, choice('kind', 'Map', kinds.map((kind) => [kind, names[kind]]), 'raw', (kind) => app.set({ kind }))));
    if (!intervals.length) body.append(el('p', { class: 'aside', text: 'Interval widths take linear programs and were not asked for.' }));
  }
  body.append(el('div', { class: 'heads' }, el('div', { class: 'scroll' }, grid), detail));
  for (const sentence of certificate ? certificate.layers : []) body.append(el('p', { class: 'aside', text: sentence }));

  const byHead = new Map(all.map((head) => [`${head.layer}.${head.head}`, head]));
  const mapOf = new Map(maps.map((map) => [map.layer, map]));
  const cells = [];
  const layers = [...new Set(all.map((head) => head.layer))].sort((a, b) => b - a);
  for (const layer of layers) {
    const role = app.data.blocks[layer] && app.data.blocks[layer].role;
    const name = role && role !== 'self' ? `${layer} ${role}` : `layer ${layer}`;
    const row = el('div', { class: 'row' }, el('span', { class: 'row-name', text: name }));
    for (const head of all.filter((one) => one.layer === layer)) {
      const thumb = mapOf.has(layer) ? el('canvas', { class: 'thumb', 'aria-hidden': 'true' }) : null;
      const button = el(
        'button',
        {
          type: 'button',
          class: 'head',
          'data-head': `${head.layer}.${head.head}`,
          'aria-label': `Layer ${layer} head ${head.head}${head.verdict ? `: ${head.verdict}, ${percent(head.nullShare || 0)} without effect` : ''}`,
          onclick: () => app.set({ layer: head.layer, head: head.head }),
        },
        thumb,
        el('span', { class: `mark ${markClass(head.verdict)}`, text: MARKS[head.verdict] || '' }),
        el('span', { class: 'share', text: (head.nullShare || 0) < 0.0005 ? '' : percent(head.nullShare) }),
      );
      row.append(button);
      cells.push({ head, thumb, button });
    }
    grid.append(row);
  }
  roving(cells.map(({ button }) => button));

  function value(kind, map, row, column) {
    const raw = map.weights.at(row, column);
    const none = map.null ? map.null.at(row, column) : 0;
    return kind === 'raw' ? raw : kind === 'null' ? none : raw - none;
  }

  // A head's map as a picture, one pixel for a cell; shades follow the square root of the size.
  function picture(head, kind) {
    const map = mapOf.get(head.layer);
    const rows = map.weights.count / map.heads;
    const columns = map.weights.width;
    const values = new Float32Array(rows * columns);
    if (kind === 'width') {
      for (const [t, s, , low, high] of rangesOf(head)) {
        const at = Math.floor((t - map.queries) / map.cell) * columns + Math.floor((s - map.keys) / map.cell);
        values[at] = Math.max(values[at], high - low);
      }
    } else {
      for (let i = 0; i < rows; i++) {
        for (let j = 0; j < columns; j++) values[i * columns + j] = value(kind, map, head.head * rows + i, j);
      }
    }
    const size = kind === 'null' || kind === 'width' ? Math.max(extent(values), 0.02) : extent(values);
    const theme = colours();
    const image = new ImageData(columns, rows);
    for (let i = 0; i < values.length; i++) {
      const part = values[i] / size;
      const rgb = shade(Math.sign(part) * Math.sqrt(Math.abs(part)), theme);
      image.data.set(rgb, 4 * i);
      image.data[4 * i + 3] = 255;
    }
    return { image, size, rows, columns, map };
  }

  function rangesOf(head) {
    const found = intervals.find((one) => one.layer === head.layer && one.head === head.head);
    return found ? found.rows : [];
  }

  function update(changed) {
    const { layer, head, kind } = app.state;
    for (const cell of cells) {
      const chosen = cell.head.layer === layer && cell.head.head === head;
      cell.button.setAttribute('aria-pressed', String(chosen));
      if (cell.thumb && (changed.kind || changed.theme)) paint(cell.thumb, picture(cell.head, kind).image, THUMB, THUMB);
    }
    show(byHead.get(`${layer}.${head}`));
  }

  function show(head) {
    const parts = [el('h3', { text: `Layer ${head.layer}, head ${head.head}` })];
    if (head.verdict) parts.push(
      el('p', { class: 'verdict' }, el('span', { class: `mark ${markClass(head.verdict)}`, text: MARKS[head.verdict] }), ` ${head.verdict}`),
      el('p', { class: 'sentence', text: `${head.sentence.replace(/^layer \d+ head \d+: /, '')}.` }),
    );
    const map = mapOf.get(head.layer);
    if (map) parts.push(...large(head, map), ...bars(head, map));
    detail.replaceChildren(...parts);
  }

  function large(head, map) {
    const { kind } = app.state;
    const { image, size, rows, columns } = picture(head, kind);
    const side = Math.max(220, Math.min(340, detail.clientWidth || 340));
    const canvas = el('canvas', { class: 'map', role: 'img', 'aria-label': `Map of layer ${head.layer} head ${head.head}: ${KINDS[kind]}` });
    const height = Math.max(24, Math.round((side * rows) / columns));
    paint(canvas, image, side, Math.min(480, height));
    canvas.addEventListener('pointermove', (event) => {
      const box = canvas.getBoundingClientRect();
      const i = Math.max(0, Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)));
      const j = Math.max(0, Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns)));
      const range = (start, number) => {
        const { labels } = app.data.tokens;
        const last = Math.min(labels.length, start + (number + 1) * map.cell) - 1;
        const first = start + number * map.cell;
        return last > first ? `${labels[first]} … ${labels[last]}` : labels[first];
      };
      const shown = kind === 'width' ? '' : `: ${figure(value(kind, map, head.head * rows + i, j))}`;
      app.tip.show(event, `${range(map.queries, i)} ← ${range(map.keys, j)}${shown}`);
    });
    canvas.addEventListener('pointerleave', () => app.tip.hide());
    const coarse = map.cell > 1 ? ` A cell stands for ${map.cell} × ${map.cell} tokens and shows its largest entry.` : '';
    const text = `${KINDS[kind]}. Rows receive, columns give; the deepest shade is ${figure(size)}, shades follow the square root.${coarse}`;
    return [canvas, el('p', { class: 'legend', text: text[0].toUpperCase() + text.slice(1) })];
  }

  // The target's own row: what it attends to, what of that has an effect, and how far it could move.
  function bars(head, map) {
    const place = app.state.target[0];
    const rows = map.weights.count / map.heads;
    if (map.cell > 1 || place < map.queries || place >= map.queries + rows) return [];
    const row = head.head * rows + (place - map.queries);
    const raw = map.weights.row(row);
    const none = map.null ? map.null.row(row) : new Float64Array(raw.length);
    const ranges = new Map(rangesOf(head).filter(([t]) => t === place).map(([, s, , low, high]) => [s, [low, high]]));
    const lines = largest(Array.from(raw), 8).map(({ value: weight, index }) => {
      const name = app.data.tokens.labels[index + map.keys];
      const range = ranges.get(index + map.keys);
      return [name, figure(weight), figure(weight - none[index]), ...(ranges.size ? [range ? `${figure(range[0])} to ${figure(range[1])}` : '–'] : [])];
    });
    const heads = ['attends to', 'raw', 'effective', ...(ranges.size ? ['could be'] : [])];
    return [table(`The row of ${app.data.tokens.labels[place]}`, heads, lines, { class: 'row-table' })];
  }

  return { update };
}

// The heads of the certificate, or, without one, of the maps.
function headsOf({ certificate, maps }) {
  if (certificate) return certificate.heads;
  return maps.flatMap(({ layer, heads }) => Array.from({ length: heads }, (_, head) => ({ layer, head })));
}

function markClass(verdict) {
  return { identifiable: 'yes', 'identifiable given the keys': 'partly' }[verdict] || 'no';
}

function paint(canvas, image, width, height) {
  const small = document.createElement('canvas');
  small.width = image.width;
  small.height = image.height;
  small.getContext('2d').putImageData(image, 0, 0);
  const context = canvasContext(canvas, width, height);
  context.imageSmoothingEnabled = image.width > width;
  context.drawImage(small, 0, 0, width, height);
}

// Arrow keys move between buttons, of which one is in the way of the tab key.
function roving(buttons) {
  buttons.forEach((button, index) => {
    button.tabIndex = index ? -1 : 0;
    button.addEventListener('focus', () => {
      for (const other of buttons) other.tabIndex = -1;
      button.tabIndex = 0;
    });
    button.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const next = step && buttons[index + step];
      if (!next) return;
      event.preventDefault();
      next.focus();
    });
  });
}
