// The page: one state, and a view per section that follows it.

async function start() {
  const data = await readPayload(document.getElementById('payload').textContent);
  const root = document.getElementById('report');
  root.replaceChildren();
  const misleading = headsOf(data).slice().sort((a, b) => (b.movable || 0) - (a.movable || 0))[0];
  const state = {
    method: 0,
    target: data.target,
    picked: pickedBy(data, data.target),
    source: null,
    direction: 'target',
    words: data.openWords && data.tokens.wordsKnown,
    special: 'shown',
    kind: 'raw',
    layer: misleading ? misleading.layer : 0,
    head: misleading ? misleading.head : 0,
  };
  const app = {
    data,
    root,
    state,
    tip: makeTip(document.body),
    layout: makeUnits(data, state),
    get method() {
      return data.methods[state.method];
    },
    shading(method = app.method) {
      const count = data.tokens.labels.length;
      if (state.direction === 'source') return overUnits(scoresOfSource(method, state.source || [], count), app.layout, true);
      const values = scoresOfTarget(method, state.target);
      return values ? overUnits(values, app.layout, false) : app.layout.units.map(() => NaN);
    },
    names: () => names(data, state),
    choose(unit) {
      if (state.direction === 'source') app.set({ source: unit.places });
      else app.set({ picked: unit.places, target: targetsOf(data, unit.places) });
    },
    set(patch) {
      const changed = {};
      for (const [name, value] of Object.entries(patch)) {
        changed[name] = state[name] !== value;
        state[name] = value;
      }
      if (changed.direction && state.direction === 'source' && !state.source) state.source = state.picked.length ? state.picked : [0];
      if (changed.words || changed.special) app.layout = makeUnits(data, state);
      update(changed);
    },
    hover(node) {
      if (app.river && !app.hovering) {
        app.hovering = true;
        app.node = node;
        requestAnimationFrame(() => {
          app.hovering = false;
          app.river.trace(app.node);
        });
      }
      app.node = node;
    },
  };
  const header = makeHeader(app);
  const everything = { kind: true, theme: true };
  const views = [header];
  if (data.methods.length) views.push(makeText(app));
  app.river = makeRiver(app);
  views.push(app.river, makeMethods(app), makeHeads(app), makeAlternatives(app), makeMixing(app), makeReceipt(app), makeGlossary(app));
  makeContents(app);
  preparePrint(app);

  function update(changed) {
    for (const view of views) if (view) view.update(changed);
  }
  app.update = update;
  update(everything);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => update(everything));
  document.documentElement.dataset.ready = 'true';
}

// A generated token is explained at the position before it, where it was predicted.
function targetsOf(data, places) {
  return data.prompt === null ? places : places.map((place) => (place >= data.prompt ? place - 1 : place));
}

function pickedBy(data, target) {
  const next = target.length === 1 && data.prompt !== null && target[0] >= data.prompt - 1 && target[0] + 1 < data.tokens.labels.length;
  return next ? [target[0] + 1] : target.filter((place) => place !== POOLED);
}

function names(data, state) {
  const join = (places) => `‘${places.map((place) => nameOf(data.tokens, place)).join(' ')}’`;
  const predicted = isPrediction(data, state) && data.answer.length > 0 && !isGenerated(data, state);
  const picked = state.picked.length ? join(state.picked) : 'all positions';
  return { target: predicted ? `the prediction ‘${shownOutput(data.answer[0])}’` : picked, source: state.source ? join(state.source) : '' };
}

function isGenerated(data, { picked }) {
  return data.prompt !== null && picked.length > 0 && picked[0] >= data.prompt;
}

function isPrediction(data, state) {
  return state.target.length === data.target.length && state.target.every((place, i) => place === data.target[i]);
}

// The answer first: the predicted class or token with its probability and the runners-up, then what it comes from.
function makeHeader(app) {
  const { data, state } = app;
  const theme = el('button', { type: 'button', class: 'theme', onclick: () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    app.update({ kind: true, theme: true });
  } });
  const headline = el('h1', {});
  const others = el('p', { class: 'others' });
  const verdict = el('p', { id: 'verdict' });
  const trust = el('p', { class: 'lead' });
  const back = el('button', { type: 'button', class: 'plain', text: 'Back to the initial target', onclick: () => app.set({ target: data.target, picked: pickedBy(data, data.target) }) });
  const { provenance } = data;
  app.root.append(
    el('header', {},
      el('div', { class: 'top' }, el('p', { class: 'brand', text: 'thalweg' }), el('p', { class: 'model', text: `${provenance.model || ''} · ${data.tokens.labels.length} tokens` }), theme),
      headline, others, verdict,
      ...data.tokens.warnings.map((text) => el('p', { class: 'warning' }, '⚠ ', term('Unknown tokens', 'unknown token'), `: ${text}.`)),
      trust, back),
  );

  function update() {
    theme.textContent = isDark() ? 'Light' : 'Dark';
    theme.setAttribute('aria-label', `Switch to ${isDark() ? 'light' : 'dark'} colours`);
    back.hidden = !data.methods.length || isPrediction(data, state);
    const outcomes = outcomesOf();
    headline.replaceChildren(...heading(outcomes));
    others.replaceChildren(...(outcomes.length > 1 ? ['Runners-up: ', outcomes.slice(1).map(named).join(', ')] : []));
    others.hidden = outcomes.length < 2;
    verdict.textContent = data.methods.length ? sentence() : '';
    trust.textContent = data.certificate ? certificateSentence(data.certificate) : '';
  }

  // The model's most probable outputs at the target.
  function outcomesOf() {
    if (isPrediction(data, state) && data.answer.length && !isGenerated(data, state)) return data.answer;
    const output = state.target.length === 1 && data.outputs[state.target[0]];
    return output ? [output] : [];
  }

  function heading([first]) {
    if (!data.methods.length) return [data.certificate ? 'Is this attention uniquely determined?' : 'Can other attention do the same?'];
    if (!first) return [capitalise(`target ${names(data, state).target}`)];
    const chance = first.chance && el('span', { class: 'chance' }, term(first.chance, 'probability'));
    return [el('span', { class: 'kind', text: 'Prediction ' }), el('span', { class: 'answer', text: shownOutput(first) }), ...(chance ? [' ', chance] : [])];
  }

  function sentence() {
    const { target } = names(data, state);
    const values = scoresOfTarget(app.method, state.target);
    const units = values ? overUnits(values, app.layout, false) : [];
    const listed = (scores, count) => joinWithAnd(largest(scores, count).map(({ index }) => `${app.layout.units[index].name} (${formatNumber(units[index])})`));
    const reading = readingOf(target);
    if (!largest(units, 1).length) return capitalise(reading || `${target}.`);
    if (units.some((value) => value < 0)) {
      const { explained, foil } = app.method;
      const output = explained ? `‘${shownOutput(explained)}’` : target;
      const against = listed(units.map((value) => Math.min(0, value)), 3) || 'nothing';
      return capitalise(`${reading} By ${app.method.name}, for ${output}${foil ? ` rather than ‘${shownOutput(foil)}’` : ''}: ${listed(units.map((value) => Math.max(0, value)), 3) || 'nothing'}; against it: ${against}.`.trim());
    }
    return capitalise(`${reading} By ${app.method.name}, ${reading ? 'it' : target} comes mostly from ${listed(units, 3)}.`.trim());
  }

  // Where the prediction is read, or what the model predicts at the target.
  function readingOf(target) {
    const place = state.target[0];
    if (place === POOLED) return `${target} is pooled over all positions.`;
    const at = nameOf(data.tokens, place);
    if (isGenerated(data, state)) return `${target} was generated after ‘${at}’.`;
    if (isPrediction(data, state) && data.answer.length) return `${target} is read at ${at}.`;
    const output = data.outputs[place];
    return output ? `at ${target}, the model predicts ‘${shownOutput(output)}’${output.chance ? ` (${output.chance})` : ''}.` : '';
  }

  return { update };
}

function shownOutput({ name }) {
  return name.trim() || name;
}

function named(outcome) {
  return `${shownOutput(outcome)}${outcome.chance ? ` ${outcome.chance}` : ''}`;
}

// Links to the sections, and a way past the header for keyboards.
function makeContents(app) {
  const sections = Array.from(app.root.querySelectorAll('section'));
  const links = sections.map((part) => link(part.id, part.querySelector('h2').textContent));
  app.root.querySelector('header').after(el('nav', { 'aria-label': 'Sections' }, ...links));
}

// Printed pages are light, and show what is folded on the screen.
function preparePrint(app) {
  let before = null;
  window.addEventListener('beforeprint', () => {
    const folded = Array.from(document.querySelectorAll('details:not([open])'));
    before = { theme: document.documentElement.dataset.theme, folded };
    for (const part of folded) part.open = true;
    document.documentElement.dataset.theme = 'light';
    app.update({ kind: true, theme: true });
  });
  window.addEventListener('afterprint', () => {
    if (!before) return;
    for (const part of before.folded) part.open = false;
    if (before.theme) document.documentElement.dataset.theme = before.theme;
    else delete document.documentElement.dataset.theme;
    before = null;
    app.update({ kind: true, theme: true });
  });
}

function capitalise(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function joinWithAnd(items) {
  return items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items[items.length - 1]}`;
}

function certificateSentence({ counts, heads, localRows }) {
  const unique = counts.identifiable || 0;
  const local = counts['locally unique given the keys'] || 0;
  if (unique === heads.length) return `All ${heads.length} heads have uniquely determined attention: no other weights give the same output.`;
  const others = unique ? 'in the others, different weights' : 'different weights';
  const keys = local ? ` ${unique ? 'Another ' : ''}${local} ${local === 1 ? 'is' : 'are'} locally unique given the keys.` : '';
  const rows = ` Row by row, ${localRows} of all rows are at least locally unique.`;
  return `${unique} of ${heads.length} heads have uniquely determined attention; ${others} give exactly the same output.${keys}${rows}`;
}

start().catch((error) => {
  document.querySelector('main, body').textContent = `This page could not be drawn: ${error}`;
});
