// Attention maps of all heads with their verdicts.

const VERDICTS = {
  identifiable: { mark: '●', kind: 'yes' },
  'locally unique given the keys': { mark: '◐', kind: 'partly' },
  'not identifiable': { mark: '○', kind: 'no' },
};
const THUMB = 44; // pixels
const MAP_MARGIN = 84; // for the names beside a map
const LABEL_STEP = 13; // pixels between names
const KINDS = {
  raw: 'Attention weights',
  effective: 'Effective attention: attention minus its null component',
  null: 'Null component of attention, which has no effect on the output; orange is negative',
  width: 'Width of each weight’s interval: how far it can move without changing the output',
};

function makeHeads(app) {
  const { certificate, maps, intervals } = app.data;
  const heads = headsOf(app.data);
  if (!heads.length) return null;
  const body = section(
    app.root,
    'heads',
    'Layers and heads',
    certificate
      ? 'A head is identifiable if no other attention weights give the same output. Select a head to see its map and verdict.'
      : 'Attention maps only: the certificate was not computed for a text of this length. Select a head to see its map.',
    ['identifiable', 'locally unique given the keys', 'null share', 'effective attention', 'query', 'key'],
  );
  const summary = el('p', { class: 'summary', text: certificate ? certificate.summary : '' });
  const legend = el('p', { class: 'legend marks' });
  for (const verdict of Object.keys(certificate ? VERDICTS : {})) {
    legend.append(el('span', {}, markOf(verdict), ` ${verdict} (${certificate.counts[verdict] || 0})`));
  }
  if (certificate) legend.append(el('span', { text: '%: attention that can move without any effect, at least' }));
  const grid = el('div', { class: 'grid', role: 'group', 'aria-label': 'Heads by layer' });
  const detail = el('div', { class: 'detail' });
  const targetRow = el('div', {});
  const overview = el('div', {}, scroller('Heads by layer', grid), targetRow);
  const kinds = Object.keys(KINDS).filter((kind) => kind === 'raw' || (kind === 'width' ? intervals.length : certificate));
  const names = { raw: 'raw', effective: 'effective', null: 'null component', width: 'interval width' };
  body.append(summary, legend);
  if (maps.length) {
    body.append(el('div', { class: 'controls' }, choice('kind', 'Map', kinds.map((kind) => [kind, names[kind]]), 'raw', (kind) => app.set({ kind }))));
    if (!intervals.length) body.append(el('p', { class: 'aside', text: 'Interval widths were not computed; request them with --intervals or intervals=True.' }));
  }
  body.append(el('div', { class: 'heads' }, overview, detail));
  if (certificate && certificate.misleading.rows.length) {
    const caption = 'Most misleading heads: the mass that can move without any effect (a lower bound), on average and in one row; rows that are unique, by values alone or given the keys; and the null share';
    overview.append(scroller('Most misleading heads', table(caption, certificate.misleading.columns, certificate.misleading.rows)));
  }
  for (const sentence of certificate ? certificate.layers : []) body.append(el('p', { class: 'aside', text: `${capitalise(sentence)}.` }));

  const byHead = new Map(heads.map((head) => [`${head.layer}.${head.head}`, head]));
  const mapOf = new Map(maps.map((map) => [map.layer, map]));
  const cells = [];
  const layers = [...new Set(heads.map((head) => head.layer))].sort((a, b) => b - a);
  for (const layer of layers) {
    const role = app.data.blocks[layer] && app.data.blocks[layer].role;
    const name = role && role !== 'self' ? `${layer} ${role}` : `layer ${layer}`;
    const row = el('div', { class: 'row' }, el('span', { class: 'row-name', text: name }));
    for (const head of heads.filter((entry) => entry.layer === layer)) {
      const thumb = mapOf.has(layer) ? el('canvas', { class: 'thumb', 'aria-hidden': 'true' }) : null;
      const button = el(
        'button',
        {
          type: 'button',
          class: 'head',
          'data-head': `${head.layer}.${head.head}`,
          'aria-label': `Layer ${layer} head ${head.head}${head.verdict ? `: ${head.verdict}, ${formatPercent(head.movable || 0)} can move, null share ${formatPercent(head.nullShare || 0)}` : ''}`,
          title: `Layer ${layer}, head ${head.head}${head.verdict ? `: ${head.verdict}` : ''}`,
          onclick: () => app.set({ layer: head.layer, head: head.head }),
        },
        thumb,
        head.verdict ? markOf(head.verdict) : null,
        el('span', { class: 'share', text: (head.movable || 0) < 0.0005 ? '' : formatPercent(head.movable) }),
      );
      row.append(button);
      cells.push({ head, thumb, button });
    }
    grid.append(row);
  }
  makeRovingFocus(cells.map(({ button }) => button));

  function value(kind, map, row, column) {
    const raw = map.weights.at(row, column);
    const inert = map.null ? map.null.at(row, column) : 0;
    return kind === 'raw' ? raw : kind === 'null' ? inert : raw - inert;
  }

  // A head's map as an image with one pixel per cell; shades follow the square root of the magnitude.
  function picture(head, kind) {
    const map = mapOf.get(head.layer);
    const rows = map.weights.count / map.heads;
    const columns = map.weights.width;
    const values = new Float32Array(rows * columns);
    if (kind === 'width') {
      for (const [t, s, , low, high] of rangesOf(head)) {
        const at = Math.floor((t - map.firstQuery) / map.cell) * columns + Math.floor((s - map.firstKey) / map.cell);
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
    const match = intervals.find((entry) => entry.layer === head.layer && entry.head === head.head);
    return match ? match.rows : [];
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
      el('p', { class: 'verdict' }, markOf(head.verdict), ` ${head.verdict}`),
      el('p', { class: 'sentence', text: `${head.sentence.replace(/^layer \d+ head \d+: /, '')}.` }),
    );
    const map = mapOf.get(head.layer);
    if (map) parts.push(...large(head, map));
    targetRow.replaceChildren(...(map ? bars(head, map) : []));
    detail.replaceChildren(...parts);
  }

  function large(head, map) {
    const { kind } = app.state;
    const { image, size, rows, columns } = picture(head, kind);
    const side = Math.max(180, Math.min(420, (detail.clientWidth || 420) - MAP_MARGIN));
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
      const shown = kind === 'width' ? '' : `: ${formatNumber(value(kind, map, head.head * rows + i, j))}`;
      app.tip.show(event, `${range(map.firstQuery, i)} ← ${range(map.firstKey, j)}${shown}`);
    });
    canvas.addEventListener('pointerleave', () => app.tip.hide());
    const coarse = map.cell > 1 ? ` Each cell covers ${map.cell} × ${map.cell} tokens and shows its largest entry.` : '';
    const text = `${KINDS[kind]}. Rows are queries, columns are keys. The strongest shade is ${formatNumber(size)}; shades follow the square root.${coarse}`;
    const { tokens } = app.data;
    return [labelled(canvas, namesOf(tokens, map.firstQuery, rows, map.cell), namesOf(tokens, map.firstKey, columns, map.cell)), el('p', { class: 'legend', text })];
  }

  // The target's row: its largest weights, their effective part, and their intervals.
  function bars(head, map) {
    const place = app.state.target[0];
    const rows = map.weights.count / map.heads;
    if (map.cell > 1 || place < map.firstQuery || place >= map.firstQuery + rows) return [];
    const row = head.head * rows + (place - map.firstQuery);
    const raw = map.weights.row(row);
    const inert = map.null ? map.null.row(row) : new Float64Array(raw.length);
    const ranges = new Map(rangesOf(head).filter(([t]) => t === place).map(([, s, , low, high]) => [s, [low, high]]));
    const lines = largest(Array.from(raw), 8).map(({ value: weight, index }) => {
      const name = nameOf(app.data.tokens, index + map.firstKey);
      const range = ranges.get(index + map.firstKey);
      return [name, formatNumber(weight), formatNumber(weight - inert[index]), ...(ranges.size ? [range ? `${formatNumber(range[0])} to ${formatNumber(range[1])}` : '–'] : [])];
    });
    const header = ['key', 'raw', 'effective', ...(ranges.size ? ['interval'] : [])];
    return [table(`Row of ${nameOf(app.data.tokens, place)}`, header, lines, { class: 'row-table' })];
  }

  return { update };
}

// A map with the names of its queries on the left and of its keys below; of many, every n-th.
function labelled(canvas, rows, columns) {
  const [width, height] = [parseFloat(canvas.style.width), parseFloat(canvas.style.height)];
  const below = el('div', { class: 'map-columns', 'aria-hidden': 'true' }, ...spaced(columns, width, 'left'));
  below.style.width = `${width}px`;
  return el('div', { class: 'labelled' }, el('div', { class: 'map-rows', 'aria-hidden': 'true' }, ...spaced(rows, height, 'top')), canvas, below);
}

function spaced(names, length, side) {
  const step = Math.ceil((LABEL_STEP * names.length) / length);
  return names.flatMap((text, i) => {
    if (i % step) return [];
    const name = el('span', { text: truncate(text, 10) });
    name.style[side] = `${(100 * (i + 0.5)) / names.length}%`;
    return [name];
  });
}

// The first token of every cell.
function namesOf(tokens, first, count, cell) {
  return Array.from({ length: count }, (_, i) => nameOf(tokens, first + i * cell));
}

// Heads of the certificate, or of the maps if there is no certificate.
function headsOf({ certificate, maps }) {
  if (certificate) return certificate.heads;
  return maps.flatMap(({ layer, heads }) => Array.from({ length: heads }, (_, head) => ({ layer, head })));
}

function markOf(verdict) {
  const { mark, kind } = VERDICTS[verdict];
  return el('span', { class: `mark ${kind}`, text: mark });
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

// Arrow keys move between buttons; the tab key reaches one of them.
function makeRovingFocus(buttons) {
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
