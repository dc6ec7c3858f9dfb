// The text: a button per token, shaded by its contribution to the target, or by what it receives from the source.

function makeText(app) {
  const body = section(
    app.root,
    'text',
    'Text',
    'Each token is shaded by its contribution to the target. Select a token to make it the target; arrow keys move between tokens.',
    ['target', 'source', 'contribution'],
  );
  const controls = el('div', { class: 'controls' });
  const shown = faded(el('div', { class: 'tokens', role: 'group', 'aria-label': 'Tokens of the text' }));
  const legend = el('p', { class: 'legend' });
  const status = el('p', { class: 'status', role: 'status' });
  body.append(shown, status, legend, controls);
  const { data } = app;
  controls.append(
    choice('direction', 'Select', [['target', 'target'], ['source', 'source']], 'target', (direction) => app.set({ direction })),
    data.tokens.wordsKnown
      ? choice('unit', 'Show', [['tokens', 'tokens'], ['words', 'words']], app.state.words ? 'words' : 'tokens', (unit) => app.set({ words: unit === 'words' }))
      : el('p', { class: 'aside', text: 'Word boundaries are unknown for this input, so tokens are shown.' }),
  );
  if (data.tokens.special.some(Boolean)) {
    const ways = [['shown', 'shown'], ['merged', 'merged'], ['hidden', 'hidden']];
    controls.append(choice('special', 'Special tokens', ways, 'shown', (special) => app.set({ special })));
  }
  let buttons = [];
  let built = null;
  let focus = 0;

  function build() {
    built = app.layout;
    focus = 0;
    buttons = built.units.map((unit, index) => {
      const kind = `token${unit.special ? ' special' : ''}${unit.glued ? ' glued' : ''}${unit.generated ? ' generated' : ''}${unit.unknown ? ' unread' : ''}`;
      return el(
        'button',
        { type: 'button', class: kind, tabindex: index ? '-1' : '0', 'data-unit': index },
        unit.label,
        unit.repeated ? el('sub', { text: unit.places[0] }) : null,
        unit.unknown && unit.surface ? el('small', { text: `‹${unit.surface}›` }) : null,
      );
    });
    const nodes = [];
    buttons.forEach((button, index) => {
      const [unit, before] = [built.units[index], built.units[index - 1]];
      if (before && unit.generated && !before.generated) nodes.push(el('span', { class: 'divide', text: 'generated:' }));
      else if (before && unit.segment !== before.segment) nodes.push(el('span', { class: 'divide', text: '│' }));
      nodes.push(button);
    });
    shown.replaceChildren(...nodes);
  }

  const unitAt = (event) => {
    const button = event.target.closest('button');
    return button ? Number(button.dataset.unit) : -1;
  };
  shown.addEventListener('click', (event) => {
    const index = unitAt(event);
    if (index >= 0) app.choose(built.units[index]);
  });
  shown.addEventListener('pointerover', (event) => {
    const index = unitAt(event);
    if (index < 0) return;
    app.tip.show(event, describe(index));
    app.hover({ level: 0, unit: index });
  });
  shown.addEventListener('pointerout', () => {
    app.tip.hide();
    app.hover(null);
  });
  shown.addEventListener('focusin', (event) => {
    const index = unitAt(event);
    if (index < 0) return;
    move(index, false);
    app.hover({ level: 0, unit: index });
  });
  shown.addEventListener('focusout', () => app.hover(null));
  shown.addEventListener('keydown', (event) => {
    const steps = { ArrowRight: focus + 1, ArrowDown: focus + 1, ArrowLeft: focus - 1, ArrowUp: focus - 1, Home: 0, End: buttons.length - 1 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    move(Math.max(0, Math.min(buttons.length - 1, steps[event.key])), true);
  });

  function move(index, focused) {
    buttons[focus].tabIndex = -1;
    focus = index;
    buttons[focus].tabIndex = 0;
    if (focused) buttons[focus].focus();
  }

  let values = [];
  function describe(index) {
    const { name, surface, unknown } = built.units[index];
    const text = surface === null ? '' : unknown ? `; unknown to the model, the text is ‘${surface}’` : `; the text is ‘${surface}’`;
    const value = values[index];
    if (Number.isNaN(value)) return `${name}: not computed${text}`;
    return app.state.direction === 'target'
      ? `${name} contributes ${formatNumber(value)} to ${app.names().target}${text}`
      : `${name} receives ${formatNumber(value)} from ${app.names().source}${text}`;
  }

  function update() {
    if (built !== app.layout) build();
    values = app.shading();
    const size = extent(values);
    const theme = colours();
    const picked = new Set(app.state.direction === 'target' ? app.state.picked : app.state.source || []);
    buttons.forEach((button, index) => {
      const value = values[index];
      const rgb = Number.isNaN(value) ? theme.paper : shade(value / size, theme);
      button.style.backgroundColor = css(rgb);
      button.style.color = textColour(rgb);
      button.setAttribute('aria-label', describe(index));
      button.setAttribute('aria-pressed', String(built.units[index].places.some((place) => picked.has(place))));
      button.classList.toggle('unknown', Number.isNaN(value));
    });
    const missing = values.every(Number.isNaN);
    const { method } = app;
    status.textContent = missing
      ? `${method.name} was computed for ${method.targets.length === 1 ? 'the prediction' : 'some targets'} only. Select another method or another target.`
      : sentence();
    legend.textContent = missing ? '' : legendText(values, size);
  }

  function sentence() {
    const best = largest(values, 5).map(({ index, value }) => `${built.units[index].name} ${formatNumber(value)}`).join(', ');
    const { target, source } = app.names();
    return app.state.direction === 'target'
      ? `Largest sources of ${target}: ${best || 'none'}.`
      : `Largest targets of ${source}: ${best || 'none'}.`;
  }

  function legendText(scores, size) {
    const signed = scores.some((value) => value < 0);
    const parts = [`The strongest shade is ${formatNumber(size)}${signed ? '; blue is positive, orange negative' : ''}.`];
    if (app.state.special === 'hidden') parts.push(`Special tokens are hidden${hiddenShare()}.`);
    if (app.state.special === 'merged') parts.push('Special tokens are merged into one.');
    if (app.state.words) parts.push('The score of a word is the sum over its tokens; a target word is the mean of its tokens.');
    return parts.join(' ');
  }

  function hiddenShare() {
    const row = app.state.direction === 'target' && scoresOfTarget(app.method, app.state.target);
    if (!row) return '';
    const share = row.reduce((sum, value, place) => sum + (data.tokens.special[place] ? value : 0), 0);
    return `; they contribute ${formatNumber(share)}`;
  }

  return { update };
}
