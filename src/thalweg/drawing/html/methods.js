// Methods side by side, and their rank correlation on the target.

function makeMethods(app) {
  const { methods } = app.data;
  if (!methods.length) return null;
  const body = section(
    app.root,
    'methods',
    'Methods side by side',
    'Scores of each method for the same target. Select a method to show it above.',
    ['method', 'contribution', 'rank correlation'],
  );
  const list = el('div', { class: 'methods', role: 'radiogroup', 'aria-label': 'Method' });
  const agreement = scroller('Rank correlation between methods');
  body.append(el('div', { class: 'columns' }, list, agreement));
  const rows = methods.map((method, index) => {
    const strip = el('canvas', { class: 'strip', 'aria-hidden': 'true' });
    const best = el('span', { class: 'best' });
    const button = el(
      'button',
      { type: 'button', role: 'radio', class: 'method', 'data-method': method.name, onclick: () => app.set({ method: index }) },
      el('span', { class: 'name', text: method.name }),
      el('span', { class: 'summary', text: method.summary }),
      strip,
      best,
    );
    list.append(button);
    return { method, strip, best, button };
  });
  list.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (app.state.method + step + rows.length) % rows.length;
    app.set({ method: next });
    rows[next].button.focus();
  });

  function update() {
    const theme = colours();
    const shadings = rows.map(({ method }) => app.shading(method));
    rows.forEach(({ strip, best, button }, index) => {
      const values = shadings[index];
      const chosen = index === app.state.method;
      button.setAttribute('aria-checked', String(chosen));
      button.tabIndex = chosen ? 0 : -1;
      strip.width = Math.max(1, values.length);
      strip.height = 1;
      const context = strip.getContext('2d');
      const size = extent(values);
      const picture = context.createImageData(values.length || 1, 1);
      values.forEach((value, i) => {
        picture.data.set([...shade(Number.isNaN(value) ? 0 : value / size, theme), 255], 4 * i);
      });
      context.putImageData(picture, 0, 0);
      strip.title = 'One cell per token, relative to the largest score of the method';
      best.textContent = values.every(Number.isNaN)
        ? 'computed for the prediction only'
        : largest(values, 3).map(({ index: unit, value }) => `${app.layout.units[unit].name} ${formatNumber(value)}`).join(' · ');
    });
    const known = rows.map(({ method }, index) => ({ name: method.name, values: shadings[index] })).filter(({ values }) => !values.some(Number.isNaN));
    agreement.replaceChildren(...(known.length > 1 ? [matrix(known, theme)] : []));
  }

  // If any method is signed, absolute scores are ranked, since most methods are not. Units that score zero in every
  // method, such as tokens that the target cannot see, are left out: they would count as agreement.
  function matrix(known, theme) {
    const signed = known.some(({ values }) => values.some((value) => value < 0));
    const named = known[0].values.map((_, unit) => known.some(({ values }) => Math.abs(values[unit]) > TINY));
    const sizes = known.map(({ values }) => (signed ? values.map(Math.abs) : values).filter((_, unit) => named[unit]));
    const unitName = app.state.words ? 'words' : 'tokens';
    const cells = table(
      `Rank correlation (−1 to 1) of ${signed ? 'absolute ' : ''}scores, over ${unitName} with a nonzero score in at least one method`,
      ['', ...known.map(({ name }) => name)],
      known.map(({ name }, i) => [name, ...known.map((_, j) => formatCorrelation(rankCorrelation(sizes[i], sizes[j])))]),
      { class: 'agreement' },
    );
    cells.querySelectorAll('td').forEach((cell, index) => {
      const value = rankCorrelation(sizes[Math.floor(index / known.length)], sizes[index % known.length]);
      const rgb = shade(Number.isNaN(value) ? 0 : 0.85 * value, theme);
      cell.style.backgroundColor = css(rgb);
      cell.style.color = textColour(rgb);
      cell.title = `${known[Math.floor(index / known.length)].name}, ${known[index % known.length].name}: ${GLOSSARY['rank correlation']}`;
    });
    return cells;
  }

  return { update };
}

function formatCorrelation(value) {
  return Number.isNaN(value) ? '–' : `${value < 0 ? '−' : ''}${Math.abs(value).toFixed(2)}`;
}
