// Units (tokens or words; special tokens shown, hidden or merged) and the scores over them.

const POOLED = -1; // target of a prediction that is pooled over all positions
const TINY = 1e-12;

function makeUnits(data, choice) {
  const { tokens } = data;
  const count = tokens.labels.length;
  const units = [];
  const unitOf = new Int32Array(count).fill(-1);
  const merged = { label: 'special tokens', places: [], special: true, glued: false };
  for (let place = 0; place < count; place++) {
    const special = tokens.special[place];
    if (special && choice.special === 'hidden') continue;
    if (special && choice.special === 'merged') {
      merged.places.push(place);
      continue;
    }
    const last = units[units.length - 1];
    const joins = choice.words && last && tokens.words[last.places[0]] === tokens.words[place];
    if (joins) {
      last.places.push(place);
      last.label = tokens.wordLabels[tokens.words[place]];
    } else {
      units.push({ label: tokens.labels[place], places: [place], special, glued: tokens.glued[place] });
    }
    unitOf[place] = units.length - 1;
  }
  if (merged.places.length) {
    for (const place of merged.places) unitOf[place] = units.length;
    merged.label = `${merged.places.length} special tokens`;
    units.push(merged);
  }
  const counts = new Map();
  for (const { label } of units) counts.set(label, (counts.get(label) || 0) + 1);
  for (const unit of units) {
    unit.repeated = counts.get(unit.label) > 1;
    unit.name = unit.repeated ? `${unit.label}${subscript(unit.places[0])}` : unit.label;
    unit.unknown = unit.places.some((place) => tokens.unknown[place]);
    unit.surface = surfaceOf(tokens, unit);
    unit.generated = data.prompt !== null && unit.places[0] >= data.prompt;
    unit.segment = tokens.segments[unit.places[0]];
  }
  return { units, unitOf };
}

// The original text of a unit, if the model reads another one.
function surfaceOf({ surfaces, labels }, { places }) {
  return places.some((place) => surfaces[place]) ? places.map((place) => surfaces[place] || labels[place]).join('') : null;
}

// A position in small digits, to tell repeated tokens apart.
function subscript(place) {
  return Array.from(String(place), (digit) => '₀₁₂₃₄₅₆₇₈₉'[digit]).join('');
}

// The label of a token, with its position if the text has several of them.
function nameOf({ labels }, place) {
  return labels.indexOf(labels[place]) === labels.lastIndexOf(labels[place]) ? labels[place] : `${labels[place]}${subscript(place)}`;
}

// Mean row of scores over the places of a target; null if the method was not computed for it.
function scoresOfTarget(method, places) {
  const rows = places.map((place) => method.rowOf.get(place)).filter((row) => row !== undefined);
  if (!rows.length) return null;
  const values = new Float64Array(method.scores.width);
  for (const row of rows) method.scores.add(row, 1 / rows.length, values);
  return values;
}

// Score that every target receives from the places of a source; NaN if the method was not computed for the target.
function scoresOfSource(method, places, count) {
  const values = new Float64Array(count).fill(NaN);
  for (const [place, row] of method.rowOf) {
    if (place !== POOLED) values[place] = places.reduce((sum, source) => sum + method.scores.at(row, source), 0);
  }
  return values;
}

// Aggregates token values over units: sums over sources, means over targets.
function overUnits(values, { units }, mean) {
  return units.map(({ places }) => {
    const known = places.map((place) => values[place]).filter((value) => !Number.isNaN(value));
    if (!known.length) return NaN;
    const sum = known.reduce((total, value) => total + value, 0);
    return mean ? sum / known.length : sum;
  });
}

function largest(values, count) {
  return values
    .map((value, index) => ({ value, index }))
    .filter(({ value }) => Math.abs(value) > TINY)
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value))
    .slice(0, count);
}

function extent(values) {
  let size = TINY;
  for (const value of values) if (Math.abs(value) > size) size = Math.abs(value);
  return size;
}

// Spearman's rank correlation with mean ranks for ties; NaN if either side is constant.
function rankCorrelation(first, second) {
  const [a, b] = [ranks(first), ranks(second)];
  const middle = (a.length - 1) / 2;
  let product = 0;
  let sizeA = 0;
  let sizeB = 0;
  for (let i = 0; i < a.length; i++) {
    product += (a[i] - middle) * (b[i] - middle);
    sizeA += (a[i] - middle) ** 2;
    sizeB += (b[i] - middle) ** 2;
  }
  return sizeA && sizeB ? product / Math.sqrt(sizeA * sizeB) : NaN;
}

function ranks(values) {
  const order = Array.from(values.keys()).sort((a, b) => values[a] - values[b]);
  const rank = new Float64Array(values.length);
  for (let start = 0; start < order.length; ) {
    let end = start;
    while (end + 1 < order.length && values[order[end + 1]] === values[order[start]]) end++;
    for (let i = start; i <= end; i++) rank[order[i]] = (start + end) / 2;
    start = end + 1;
  }
  return rank;
}

function formatNumber(value) {
  if (value === null || Number.isNaN(value)) return '–';
  const size = Math.abs(value);
  if (size === 0) return '0';
  return size >= 100 ? value.toFixed(0) : size >= 0.0995 ? value.toFixed(2) : size >= 0.001 ? value.toFixed(3) : value.toExponential(0);
}

function formatPercent(share) {
  const size = Math.abs(100 * share);
  return `${size > 0 && size < 9.5 ? (100 * share).toFixed(1) : (100 * share).toFixed(0)}%`;
}
