// The page: one state, and a view per section that follows it.

async function start() {
  const data = await readPayload(document.getElementById('payload').textContent);
  const root = document.getElementById('report');
  root.replaceChildren();
  const misleading = headsOf(data).slice().sort((a, b) => (b.nullShare || 0) - (a.nullShare || 0))[0];
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
  views.push(app.river, makeMethods(app), makeHeads(app), makeMixing(app), makeReceipt(app));

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
  const { labels } = data.tokens;
  const join = (places) => `‘${places.map((place) => labels[place]).join(' ')}’`;
  const predicted = isPrediction(data, state) && data.prediction !== null && !isGenerated(data, state);
  const picked = state.picked.length ? join(state.picked) : 'all positions';
  return { target: predicted ? `the prediction ‘${data.prediction}’` : picked, source: state.source ? join(state.source) : '' };
}

function isGenerated(data, { picked }) {
  return data.prompt !== null && picked.length > 0 && picked[0] >= data.prompt;
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
  const back = el('button', { type: 'button', class: 'plain', text: 'Back to the initial target', onclick: () => app.set({ target: data.target, picked: pickedBy(data, data.target) }) });
  const { provenance } = data;
  app.root.append(
    el('header', {},
      el('div', { class: 'top' }, el('p', { class: 'brand', text: 'thalweg' }), el('p', { class: 'model', text: `${provenance.model || ''} · ${data.tokens.labels.length} tokens` }), theme),
      headline, trust, back),
  );

  function update() {
    theme.textContent = isDark() ? 'Light' : 'Dark';
    theme.setAttribute('aria-label', `Switch to ${isDark() ? 'light' : 'dark'} colours`);
    back.hidden = !data.methods.length || isPrediction(data, state);
    headline.textContent = data.methods.length ? sentence() : 'Is this attention uniquely determined?';
    trust.textContent = data.certificate ? certificateSentence(data.certificate) : '';
  }

  function sentence() {
    const { target } = names(data, state);
    const values = scoresOfTarget(app.method, state.target);
    const best = values ? largest(overUnits(values, app.layout, false), 3) : [];
    const sources = joinWithAnd(best.map(({ index, value }) => `${app.layout.units[index].label} (${formatNumber(value)})`));
    const reading = readingOf(target);
    if (!sources) return capitalise(reading || `${target}.`);
    return reading
      ? `${capitalise(reading)} Largest sources by ${app.method.name}: ${sources}.`
      : `Largest sources of ${target} by ${app.method.name}: ${sources}.`;
  }

  // Where the prediction is read, or what the model predicts at the target.
  function readingOf(target) {
    const { labels } = data.tokens;
    const place = state.target[0];
    if (place === POOLED) return `${target} is pooled over all positions.`;
    if (isGenerated(data, state)) return `${target} was generated after ‘${labels[place]}’.`;
    if (isPrediction(data, state) && data.prediction !== null) return `${target} is read at ${labels[place]}.`;
    const output = data.outputs[place];
    return output ? `at ${target}, the model predicts ‘${output.trim() || output}’.` : '';
  }

  return { update };
}

function capitalise(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function joinWithAnd(items) {
  return items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items[items.length - 1]}`;
}

function certificateSentence({ counts, heads }) {
  const unique = counts.identifiable || 0;
  const local = counts['locally unique given the keys'] || 0;
  if (unique === heads.length) return `All ${heads.length} heads have uniquely determined attention: no other weights give the same output.`;
  const others = unique ? 'in the others, different weights' : 'different weights';
  const keys = local ? ` ${unique ? 'Another ' : ''}${local} ${local === 1 ? 'is' : 'are'} locally unique given the keys.` : '';
  return `${unique} of ${heads.length} heads have uniquely determined attention; ${others} give exactly the same output.${keys}`;
}

start().catch((error) => {
  document.querySelector('main, body').textContent = `This page could not be drawn: ${error}`;
});
