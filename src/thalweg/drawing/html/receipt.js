// What was checked, to what error, what was taken for granted, and what is not here.

function makeReceipt(app) {
  const { data } = app;
  const body = section(
    app.root,
    'receipt',
    'The receipt',
    'What was checked against the model’s real pass, and to what error; what was assumed; what this page leaves out.',
  );
  const parts = data.methods.map(({ name, params, receipt }) => ({ name, params, receipt }));
  if (data.certificate) parts.push({ name: 'certificate', params: {}, receipt: data.certificate.receipt });
  const rows = parts.flatMap(({ name, receipt }) =>
    receipt.checks.map((check, i) => {
      const holds = check.worst !== null && check.worst <= check.allowed;
      return [i ? '' : name, check.name, error(check.worst), error(check.allowed), holds ? '✓ holds' : '✗ does not hold'];
    }),
  );
  body.append(el('div', { class: 'scroll' }, table('Checks, relative errors', ['', 'check', 'worst', 'allowed', ''], rows)));
  for (const { name, params, receipt } of parts) {
    const said = [...receipt.assumed];
    const chosen = Object.entries(params).map(([key, value]) => `${key} ${value}`).join(', ');
    const figures = Object.entries(receipt.figures).map(([key, value]) => `${key} ${error(value)}`).join(', ');
    const items = [...said, ...(chosen ? [`parameters: ${chosen}`] : []), ...(figures ? [`figures: ${figures}`] : [])];
    if (items.length) body.append(el('h3', { text: name }), el('ul', {}, ...items.map((text) => el('li', { text }))));
  }
  body.append(
    el('h3', { text: 'Left out of this page' }),
    el('ul', {}, ...[
      ...data.leftOut,
      'digits: scores are kept to 1/65,535 and maps of layers and heads to 1/255 of the largest of their row (half as fine where there are signs)',
    ].map((text) => el('li', { text }))),
    el('p', { class: 'legend', text: Object.entries(data.provenance).map(([key, value]) => `${key} ${value}`).join(' · ') }),
  );
  return { update() {} };
}

function error(value) {
  if (value === null) return 'not a number';
  const size = Math.abs(value);
  return size && (size < 0.001 || size >= 1e5) ? value.toExponential(1) : figure(value);
}
