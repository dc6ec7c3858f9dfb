// The teaching picture: original and alternative attention of a head side by side, and the output that both have.

const SHOWN_KEYS = 8;
const SIDES = ['Original attention', 'Alternative attention'];

function makeAlternatives(app) {
  const data = app.data.alternatives;
  if (!data) return null;
  const { labels } = app.data.tokens;
  const body = section(
    app.root,
    'alternatives',
    `Different attention, same output: layer ${data.layer}, head ${data.head}`,
    data.other
      ? `The model was run twice: with the head’s own attention, and with different weights (${data.kind}). The head writes the same vector, and the model’s output stays the same.`
      : 'No different attention was found.',
  );
  if (data.sentence) body.append(el('p', { class: 'sentence', text: `${data.sentence.replace(/^layer \d+ head \d+: /, '')}.` }));
  if (!data.other) {
    body.append(el('p', { text: `${capitalise(data.reason)}.` }));
    return { update() {} };
  }
  const maps = [data.original, data.other];
  let row = data.row;
  const rows = el('select', { id: 'alternatives-row', onchange: () => { row = rows.selectedIndex; draw(); } });
  rows.append(...data.targets.map((place, i) => el('option', { text: `${labels[place]} (${place}): ${formatPercent(data.moved[i])} moved` })));
  rows.selectedIndex = row;
  const mean = data.moved.reduce((sum, part) => sum + part, 0) / data.moved.length;
  const moved = el('p', { class: 'moved', 'aria-live': 'polite' });
  const pair = el('div', { class: 'pair' });
  const sides = SIDES.map((title, i) => {
    const whole = data.targets.length > 1;
    const map = whole ? el('canvas', { class: 'whole', role: 'img', 'aria-label': `${title} of all rows` }) : null;
    const bars = el('div', { class: 'bars' });
    const strip = el('canvas', { class: 'vector', role: 'img', 'aria-label': `Head output with ${title.toLowerCase()}` });
    const outputs = table(`Model output (${data.compared})`, ['', ''], data.names.map((name, j) => [name, formatOutput(data.outputs[i][j])]));
    pair.append(el('figure', {}, el('figcaption', { text: title }), map, bars, el('p', { class: 'legend', text: 'Output of the head in this row' }), strip, outputs));
    if (map) {
      map.addEventListener('click', (event) => {
        row = cellOf(event, map, maps[i].count, maps[i].width).i;
        rows.selectedIndex = row;
        draw();
      });
      map.addEventListener('pointermove', (event) => {
        const { i: at, j } = cellOf(event, map, maps[i].count, maps[i].width);
        app.tip.show(event, `${labels[data.targets[at]]} ← ${labels[j]}: ${formatNumber(maps[i].at(at, j))}`);
      });
      map.addEventListener('pointerleave', () => app.tip.hide());
    }
    return { map, bars, strip };
  });
  body.append(
    el('div', { class: 'controls' }, el('label', { for: 'alternatives-row', text: 'Row' }), rows),
    moved,
    pair,
    el('p', { class: 'legend', text: `Maps: rows are queries, columns are keys, shades follow the square root of the weight, relative to the largest weight of both maps. Click a row to see it below; it is tinted.${data.intervals.length ? ' Thin lines: the interval in which a weight can lie without changing the output.' : ''}` }),
    el('p', { class: 'aside', text: `${capitalise(data.evidence)}.` }),
  );

  function draw() {
    moved.textContent = `${formatPercent(data.moved[row])} of the attention of ‘${labels[data.targets[row]]}’ moved, ${formatPercent(mean)} on average over all rows. The head’s output changed by ${data.headError.toExponential(0)} of the size of its values.`;
    const theme = colours();
    const size = Math.max(...maps.map((map) => extentOf(map)));
    const both = maps.map((map) => map.row(row));
    const keys = largest(Array.from(both[0], (weight, j) => Math.max(weight, both[1][j])), SHOWN_KEYS).map(({ index }) => index);
    const ranges = new Map(data.intervals.filter(([target]) => target === data.targets[row]).map(([, source, , low, high]) => [source, [low, high]]));
    const longest = Math.max(...keys.flatMap((j) => [both[0][j], both[1][j], ...(ranges.get(j) || [])]));
    const outputs = data.headOutputs.map((output) => output.row(row));
    const outputSize = Math.max(...outputs.map(extent));
    sides.forEach(({ map, bars, strip }, i) => {
      const side = Math.max(200, Math.min(380, bars.clientWidth || 340));
      if (map) paint(map, imageOf(maps[i], size, row, theme), side, Math.max(24, Math.min(480, Math.round((side * maps[i].count) / maps[i].width))));
      bars.replaceChildren(...keys.map((j) => bar(labels[j], both[i][j], ranges.get(j), i, longest)));
      const image = new ImageData(outputs[i].length, 1);
      outputs[i].forEach((value, j) => image.data.set([...shade(value / outputSize, theme), 255], 4 * j));
      paint(strip, image, side, 16);
    });
  }

  return { update(changed) { if (changed.theme) draw(); } };
}

// A weight as a labelled bar, relative to the longest one; the thin line is its interval.
function bar(name, weight, range, side, longest) {
  const unit = 100 / longest;
  const drawing = svg('svg', { viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  drawing.append(svg('rect', { x: 0, y: 1, width: unit * weight, height: 8, class: side ? 'other' : 'own' }));
  if (range) drawing.append(svg('rect', { x: unit * range[0], y: 4.4, width: Math.max(0.6, unit * (range[1] - range[0])), height: 1.2, class: 'range' }));
  const text = range ? `${formatNumber(weight)} (${formatNumber(range[0])} to ${formatNumber(range[1])})` : formatNumber(weight);
  return el('div', { class: 'bar' }, el('span', { class: 'bar-name', text: name }), drawing, el('span', { class: 'bar-value', text }));
}

function imageOf(map, size, chosen, theme) {
  const image = new ImageData(map.width, map.count);
  for (let i = 0; i < map.count; i++) {
    const values = map.row(i);
    for (let j = 0; j < map.width; j++) {
      const rgb = shade(Math.sqrt(values[j] / size), theme);
      image.data.set([...(i === chosen ? mix(rgb, theme.less, 0.25) : rgb), 255], 4 * (i * map.width + j));
    }
  }
  return image;
}

function extentOf(map) {
  let size = 0;
  for (let i = 0; i < map.count; i++) size = Math.max(size, extent(map.row(i)));
  return size;
}

function cellOf(event, canvas, rows, columns) {
  const box = canvas.getBoundingClientRect();
  const at = (offset, length, count) => Math.max(0, Math.min(count - 1, Math.floor((offset / length) * count)));
  return { i: at(event.clientY - box.top, box.height, rows), j: at(event.clientX - box.left, box.width, columns) };
}

function formatOutput(value) {
  return value === null ? '–' : value.toFixed(4);
}
