// The receipt: checks with their errors, assumptions, and what the page leaves out.

const PASSED = '✓ passed';

function makeReceipt(app) {
  const { data } = app;
  const body = section(
    app.root,
    'receipt',
    'Receipt',
    'Checks against the model’s own forward pass with their errors, assumptions, and what this page leaves out.',
    ['receipt', 'parity', 'sum of parts', 'chain'],
  );
  const parts = data.methods.map(({ name, params, receipt }) => ({ name, params, receipt }));
  if (data.certificate) parts.push({ name: 'certificate', params: {}, receipt: data.certificate.receipt });
  if (data.alternatives) parts.push({ name: 'alternative attention', params: {}, receipt: data.alternatives.receipt });
  const rows = parts.flatMap(({ name, receipt }) =>
    receipt.checks.map((check, i) => {
      const passed = check.worst !== null && check.worst <= check.allowed;
      return [i ? '' : name, check.name, formatError(check.worst), formatError(check.allowed), passed ? PASSED : '✗ failed'];
    }),
  );
  const failed = rows.filter((row) => row[4] !== PASSED).length;
  const summary = `${failed ? `${failed} of ${rows.length} checks failed` : `All ${rows.length} checks passed`}; ${data.leftOut.length} left out of this page`;
  const details = el('details', { open: failed > 0 }, el('summary', { text: summary }));
  const notes = el('div', {});
  body.append(details);
  details.append(el('div', { class: 'columns' }, scroller('Checks', table('Checks (relative errors)', ['', 'check', 'worst', 'allowed', ''], rows)), notes));
  for (const { name, params, receipt } of parts) {
    const chosen = Object.entries(params).map(([key, value]) => `${key} ${value}`).join(', ');
    const figures = Object.entries(receipt.figures).map(([key, value]) => `${key} ${formatError(value)}`).join(', ');
    const learnt = receipt.learnt.map((text) => `proved when the model was learnt: ${text}`);
    const items = [...learnt, ...receipt.assumed.map((text) => `assumed: ${text}`), ...(chosen ? [`parameters: ${chosen}`] : []), ...(figures ? [`figures: ${figures}`] : [])];
    if (items.length) notes.append(el('h3', { text: name }), el('ul', {}, ...items.map((text) => el('li', { text }))));
  }
  notes.append(
    el('h3', { text: 'Left out of this page' }),
    el('ul', {}, ...[
      ...data.leftOut,
      'precision: scores are stored to 1/65,535 and maps to 1/255 of the largest entry of their row (half as precise if signed)',
    ].map((text) => el('li', { text }))),
    el('p', { class: 'legend', text: Object.entries(data.provenance).map(([key, value]) => `${key} ${value}`).join(' · ') }),
  );
  return { update() {} };
}

function formatError(value) {
  if (value === null) return 'not a number';
  const size = Math.abs(value);
  return size && (size < 0.001 || size >= 1e5) ? value.toExponential(1) : formatNumber(value);
}
