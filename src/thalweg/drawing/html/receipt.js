// The receipt: checks with their errors, assumptions, and what the page leaves out.

function makeReceipt(app) {
  const { data } = app;
  const body = section(
    app.root,
    'receipt',
    'Receipt',
    'Checks against the model’s own forward pass with their errors, assumptions, and what this page leaves out.',
  );
  const parts = data.methods.map(({ name, params, receipt }) => ({ name, params, receipt }));
  if (data.certificate) parts.push({ name: 'certificate', params: {}, receipt: data.certificate.receipt });
  const rows = parts.flatMap(({ name, receipt }) =>
    receipt.checks.map((check, i) => {
      const passed = check.worst !== null && check.worst <= check.allowed;
      return [i ? '' : name, check.name, formatError(check.worst), formatError(check.allowed), passed ? '✓ passed' : '✗ failed'];
    }),
  );
  body.append(el('div', { class: 'scroll' }, table('Checks (relative errors)', ['', 'check', 'worst', 'allowed', ''], rows)));
  for (const { name, params, receipt } of parts) {
    const chosen = Object.entries(params).map(([key, value]) => `${key} ${value}`).join(', ');
    const figures = Object.entries(receipt.figures).map(([key, value]) => `${key} ${formatError(value)}`).join(', ');
    const items = [...receipt.assumed, ...(chosen ? [`parameters: ${chosen}`] : []), ...(figures ? [`figures: ${figures}`] : [])];
    if (items.length) body.append(el('h3', { text: name }), el('ul', {}, ...items.map((text) => el('li', { text }))));
  }
  body.append(
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
