// Methods side by side, and how far they agree about the target.

function makeMethods(app) {
  const { methods } = app.data;
  if (!methods.length) return null;
  const body = section(
    app.root,
    'methods',
    'Methods side by side',
    'What each method says about the same target. Choose one to see it above.',
  );
  const list = el('div', { class: 'methods', role: 'radiogroup', 'aria-label': 'Method' });
  const agreement = el('div', { class: 'scroll' });
  body.append(list, agreement);
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
    const found = rows.map(({ method }) => app.shading(method));
    rows.forEach(({ strip, best, button }, index) => {
      const values = found[index];
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
      best.textContent = values.every(Number.isNaN)
        ? 'computed for the prediction only'
        : largest(values, 3).map(({ index: unit, value }) => `${app.layout.units[unit].label} ${figure(value)}`).join(' · ');
    });
    const known = rows.map(({ method }, index) => ({ name: method.name, values: found[index] })).filter(({ values }) => !values.some(Number.isNaN));
    agreement.replaceChildren(...(known.length > 1 ? [matrix(known, theme)] : []));
  }

  // Where a method's scores have a sign the sizes of all are ranked, since most have none. What no method names, as
  // tokens that the target cannot see, does not count as agreement.
  function matrix(known, theme) {
    const signed = known.some(({ values }) => values.some((value) => value < 0));
    const named = known[0].values.map((_, unit) => known.some(({ values }) => Math.abs(values[unit]) > TINY));
    const sizes = known.map(({ values }) => (signed ? values.map(Math.abs) : values).filter((_, unit) => named[unit]));
    const of = app.state.words ? 'words' : 'tokens';
    const found = table(
      `Agreement: rank correlation of ${signed ? 'the sizes of ' : ''}scores over the ${of} that any method names, from −1 to 1`,
      ['', ...known.map(({ name }) => name)],
      known.map(({ name }, i) => [name, ...known.map((_, j) => signedFigure(rankCorrelation(sizes[i], sizes[j])))]),
      { class: 'agreement' },
    );
    found.querySelectorAll('td').forEach((cell, index) => {
      const value = rankCorrelation(sizes[Math.floor(index / known.length)], sizes[index % known.length]);
      const rgb = shade(Number.isNaN(value) ? 0 : 0.85 * value, theme);
      cell.style.backgroundColor = css(rgb);
      cell.style.color = letters(rgb);
    });
    return found;
  }

  return { update };
}

function signedFigure(value) {
  return Number.isNaN(value) ? '–' : `${value < 0 ? '−' : ''}${Math.abs(value).toFixed(2)}`;
}
