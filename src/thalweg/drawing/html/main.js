// The page: one state, and views that follow it.

async function start() {
  const data = await readPayload(document.getElementById('payload').textContent);
  const root = document.getElementById('report');
  root.replaceChildren();
  const first = headsOf(data).slice().sort((a, b) => (b.nullShare || 0) - (a.nullShare || 0))[0];
  const state = {
    method: 0,
    target: data.target,
    picked: pickedBy(data, data.target),
    source: null,
    direction: 'target',
    words: data.openWords && data.tokens.wordsKnown,
    special: 'shown',
    kind: 'raw',
    layer: first ? first.layer : 0,
    head: first ? first.head : 0,
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
      if (state.direction === 'source') return overUnits(given(method, state.source || [], count), app.layout, true);
      const values = received(method, state.target);
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
  views.push(app.river, makeMethods(app), makeHeads(app), makeMixing(app), makeReceipt(app));

  function update(changed) {
    for (const view of views) if (view) view.update(changed);
  }
  app.update = update;
  update(everything);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => update(everything));
  document.documentElement.dataset.ready = 'true';
}

// What a person chose stands one place after the position that predicts it, where the model wrote it.
function targetsOf(data, places) {
  return data.prompt === null ? places : places.map((place) => (place >= data.prompt ? place - 1 : place));
}

function pickedBy(data, target) {
  const next = target.length === 1 && data.prompt !== null && target[0] >= data.prompt - 1 && target[0] + 1 < data.tokens.labels.length;
  return next ? [target[0] + 1] : target.filter((place) => place !== POOLED);
}

function names(data, state) {
  const { labels } = data.tokens;
  const join = (places) => `‘${places.map((place) => labels[place]).join(' ')}’`;
  const written = data.prompt !== null && state.picked.length && state.picked[0] >= data.prompt;
  const target = isPrediction(data, state) && data.prediction !== null && !written ? `the prediction ‘${data.prediction}’` : state.picked.length ? join(state.picked) : 'all positions';
  return { target, source: state.source ? join(state.source) : '' };
}

function isPrediction(data, state) {
  return state.target.length === data.target.length && state.target.every((place, i) => place === data.target[i]);
}

function makeHeader(app) {
  const { data, state } = app;
  const theme = el('button', { type: 'button', class: 'theme', onclick: () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    app.update({ kind: true, theme: true });
  } });
  const headline = el('h1', {});
  const trust = el('p', { class: 'lead' });
  const again = el('button', { type: 'button', class: 'plain', text: 'Back to what the page opened with', onclick: () => app.set({ target: data.target, picked: pickedBy(data, data.target) }) });
  const { provenance } = data;
  app.root.append(
    el('header', {},
      el('div', { class: 'top' }, el('p', { class: 'brand', text: 'thalweg' }), el('p', { class: 'model', text: `${provenance.model || ''} · ${data.tokens.labels.length} tokens` }), theme),
      headline, trust, again),
  );

  function update() {
    theme.textContent = isDark() ? 'Light' : 'Dark';
    theme.setAttribute('aria-label', `Switch to ${isDark() ? 'light' : 'dark'} colours`);
    again.hidden = !data.methods.length || isPrediction(data, state);
    headline.textContent = data.methods.length ? sentence() : 'Can this attention be read?';
    trust.textContent = data.certificate ? trusted(data.certificate) : '';
  }

  function sentence() {
    const { target } = names(data, state);
    const values = received(app.method, state.target);
    const best = values ? largest(overUnits(values, app.layout, false), 3) : [];
    const given = listed(best.map(({ index, value }) => `${app.layout.units[index].label} (${figure(value)})`));
    const says = `says ${app.method.name}`;
    const read = readAt(target);
    if (!given) return `${upper(read || target)}.`;
    return read ? `${upper(read)}; ${given} give${best.length === 1 ? 's' : ''} most, ${says}.` : `${upper(target)} is made most of ${given}, ${says}.`;
  }

  function readAt(target) {
    const { labels } = data.tokens;
    const place = state.target[0];
    if (place === POOLED) return `${target} is read from all positions`;
    const written = data.prompt !== null && state.picked.length && state.picked[0] >= data.prompt;
    if (written) return `${target} is said after ‘${labels[place]}’`;
    if (isPrediction(data, state) && data.prediction !== null) return `${target} is read at ${labels[place]}`;
    return data.outputs[place] ? `at ${target} the model says ‘${data.outputs[place].trim() || data.outputs[place]}’` : '';
  }

  return { update };
}

function upper(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function listed(items) {
  return items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items[items.length - 1]}`;
}

function trusted({ counts, heads }) {
  const yes = counts.identifiable || 0;
  const partly = counts['identifiable given the keys'] || 0;
  const keys = partly ? ` ${yes ? partly : `In ${partly}`} ${yes ? 'more can' : 'it can'} be read if the keys are taken as given.` : '';
  if (yes === heads.length) return 'Attention weights can be read here: in no head do other weights give the same output.';
  if (!yes) return `Attention weights alone do not settle it: in all ${heads.length} heads other weights give the same output.${keys}`;
  return `Attention weights can be read in ${yes} of ${heads.length} heads; in the others different weights give the same output.${keys}`;
}

start().catch((error) => {
  document.querySelector('main, body').textContent = `This page could not be drawn: ${error}`;
});
