// Mixing: the share of a token that stays at its own position, layer by layer.

function makeMixing(app) {
  const { mixing } = app.data;
  if (!mixing) return null;
  const body = section(
    app.root,
    'mixing',
    'Mixing by layer',
    'Share of a token’s hidden state that comes from the token itself, averaged over the text; 100% means no mixing.',
    ['mixing', 'share'],
  );
  const names = Object.keys(mixing);
  const chart = el('div', { class: 'chart' });
  const details = el('details', { open: true }, el('summary', { text: 'Table' }));
  body.append(el('div', { class: 'columns' }, chart, details));
  const layers = mixing[names[0]].own.length;
  details.append(
    scroller('Mixing by layer', table(
      'Percentages by layer: own share, tokens with a larger contributor than themselves, and shares from each kind of token',
      ['method', 'layer', 'own', 'not own', 'special', 'punctuation', 'content'],
      names.flatMap((name) =>
        mixing[name].own.map((own, layer) => [
          layer ? '' : name,
          String(layer),
          ...[own, mixing[name].not_own[layer], ...Object.values(mixing[name].by_kind[layer])].map((share) => (100 * share).toFixed(1)),
        ]),
      ),
    )),
  );

  function update() {
    const width = Math.max(260, Math.min(720, chart.clientWidth || 640));
    const height = width > 480 ? 340 : 220;
    const [left, right, top, bottom] = [40, 150, 12, 30];
    const x = (layer) => left + (layers > 1 ? (layer / (layers - 1)) * (width - left - right) : 0);
    const y = (share) => top + (1 - share) * (height - top - bottom);
    const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'Own share of tokens by layer; the figures are in the table below' });
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      picture.append(
        svg('line', { x1: left, x2: width - right, y1: y(share), y2: y(share), class: 'rule' }),
        svg('text', { x: left - 6, y: y(share) + 4, 'text-anchor': 'end', text: `${100 * share}%` }),
      );
    }
    for (let layer = 0; layer < layers; layer++) {
      if (layers <= 12 || layer % Math.ceil(layers / 12) === 0) {
        picture.append(svg('text', { x: x(layer), y: height - 10, 'text-anchor': 'middle', text: String(layer) }));
      }
    }
    const ends = names.map((name) => ({ name, own: mixing[name].own })).sort((a, b) => b.own[layers - 1] - a.own[layers - 1]);
    let lowest = -Infinity;
    ends.forEach(({ name, own }) => {
      const points = own.map((share, layer) => `${x(layer)},${y(Math.max(0, Math.min(1, share)))}`).join(' ');
      const kind = name === app.method?.name ? 'line chosen' : 'line';
      lowest = Math.max(lowest + 14, y(Math.max(0, own[layers - 1])));
      picture.append(
        svg('polyline', { points, class: kind }),
        ...own.map((share, layer) => svg('circle', { cx: x(layer), cy: y(Math.max(0, Math.min(1, share))), r: 2.5, class: kind }, svg('title', { text: `${name}, layer ${layer}: ${formatPercent(share)} of a token stays its own` }))),
        svg('text', { x: width - right + 8, y: lowest + 4, class: kind, text: truncate(name, 24) }),
      );
    });
    chart.replaceChildren(picture);
  }

  return { update };
}
