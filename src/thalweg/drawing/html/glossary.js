// Terms of the page with their meaning, as in docs/glossary.md. Tables and notes link to them.

const GLOSSARY = {
  'target': 'The position (or prediction) being explained. One row of an attribution.',
  'source': "An input token that the target's information comes from. One column of an attribution.",
  'query': 'The same two roles inside one attention head: the query receives, the key gives.',
  'key': 'The same two roles inside one attention head: the query receives, the key gives.',
  'prediction': 'What the model outputs: a class, or the token at a position. It is read at one position ([CLS], the mask, the last token) or pooled over all of them.',
  'contribution': 'The vector or number that one source adds to a target. Contributions may be negative.',
  'share': 'A contribution divided by the sum over all sources. Shares are non-negative and sum to one.',
  'attribution': 'The result of one method: contributions or shares of every source for one or more targets.',
  'method': 'A function from a capture to an attribution, registered under the name used in its paper.',
  'mixing': "How much of a token's hidden state comes from other tokens, by layer.",
  'river': 'The drawing of an attribution through the layers: ribbons are as wide as the share they carry.',
  'parity': "A check: recomputed attention weights times values equal what the model's own kernel returned.",
  'sum of parts': 'A check: the residual input plus the attention branch equals what flowed out of the block.',
  'chain': 'A check: a block reads nothing but the state below it, each position for itself, so only attention carries information between positions and layers. Proved by intervention.',
  'receipt': 'The list of checks behind a result with their errors and tolerances, further figures, and the assumptions that were not checked.',
  'identifiable': 'No other attention distribution gives the same head output: for a row, or for all rows of a head.',
  'locally unique given the keys': 'Other distributions give the same output, but none that the head could produce with its own keys and a slightly different query.',
  'null share': "The share of a head's attention that lies in the null space and therefore has no effect.",
  'effective attention': 'Attention minus its null-space component. Rows need not sum to one, and entries may be negative.',
  'certificate': 'The identifiability figures and verdicts of all heads for one input.',
  'interval': 'The exact range of one attention weight over all distributions with the same head output, found by linear programming.',
  'probability': 'How likely the model finds an output: the softmax of its logits (the sigmoid, if a classifier assigns several labels at once). It says how sure the model is, not how right.',
  'unknown token': 'The token that stands for text outside the vocabulary, such as [UNK]. The model cannot tell what it stands for.',
  'rank correlation': "Spearman's correlation between the orders in which two methods rank the tokens: 1 is the same order, 0 no relation, −1 the reverse.",
};
// Names in tables that mean a term of another name.
const ALIASES = { worst: 'receipt', allowed: 'receipt', effective: 'effective attention', own: 'mixing', 'not own': 'mixing', keys: 'key' };

// A link to the glossary whose tooltip is the meaning; plain text if the glossary lacks the term.
function term(text, name = text) {
  const key = Object.hasOwn(GLOSSARY, name) ? name : Object.hasOwn(ALIASES, name) && ALIASES[name];
  if (!key) return document.createTextNode(text);
  return link(`glossary-${key.replaceAll(' ', '-')}`, text, { class: 'term', title: GLOSSARY[key] });
}

// A link within the page. The script scrolls, because in a notebook's frame the address belongs to the notebook.
function link(id, text, props = {}) {
  return el('a', { href: `#${id}`, text, ...props, onclick: (event) => {
    event.preventDefault();
    goTo(id);
  } });
}

function goTo(id) {
  const place = document.getElementById(id);
  if (!place) return;
  const folded = place.closest('details') || place.querySelector(':scope > .body > details');
  if (folded) folded.open = true;
  place.scrollIntoView({ block: 'start' });
  place.focus({ preventScroll: true });
}

function makeGlossary(app) {
  const body = section(app.root, 'glossary', 'Glossary', 'Terms of this page.');
  const list = el('dl', {});
  for (const [name, meaning] of Object.entries(GLOSSARY)) {
    list.append(el('dt', { id: `glossary-${name.replaceAll(' ', '-')}`, tabindex: '-1', text: name }), el('dd', { text: meaning }));
  }
  body.append(el('details', {}, el('summary', { text: `${Object.keys(GLOSSARY).length} terms` }), list));
  return { update() {} };
}
