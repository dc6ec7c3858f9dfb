// Elements of the page. Tokens and labels are only ever set as text, never as HTML.

function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'text') node.textContent = value;
    else if (name === 'class') node.className = value;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function svg(tag, props = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === 'text') node.textContent = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// A section with its heading and a note, followed by links to the terms that its figures are in.
function section(root, id, title, note, terms = []) {
  const body = el('div', { class: 'body' });
  const heading = el('h2', { id: `${id}-title`, text: title });
  const links = terms.flatMap((name, i) => [i ? ', ' : ' Terms: ', term(name), ...(i === terms.length - 1 ? ['.'] : [])]);
  root.append(el('section', { id, tabindex: '-1', 'aria-labelledby': `${id}-title` }, heading, el('p', { class: 'note' }, note, ...links), body));
  return body;
}

// A wide part that scrolls on its own; its edge fades while there is more to see.
function scroller(label, ...children) {
  const node = el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, ...children);
  return faded(node);
}

function faded(node) {
  const mark = () => {
    node.classList.toggle('more-right', node.scrollLeft + node.clientWidth < node.scrollWidth - 1);
    node.classList.toggle('more-left', node.scrollLeft > 1);
    node.classList.toggle('more-below', node.scrollTop + node.clientHeight < node.scrollHeight - 1);
  };
  node.addEventListener('scroll', mark, { passive: true });
  const watcher = new ResizeObserver(mark);
  watcher.observe(node);
  new MutationObserver(mark).observe(node, { childList: true, subtree: true });
  return node;
}

// A group of radio buttons side by side.
function choice(name, legend, options, current, change) {
  const group = el('fieldset', { class: 'choice' }, el('legend', { text: legend }));
  for (const [value, label] of options) {
    const input = el('input', { type: 'radio', name, value, id: `${name}-${value}`, onchange: () => change(value) });
    input.checked = value === current;
    group.append(input, el('label', { for: `${name}-${value}`, text: label }));
  }
  return group;
}

function table(caption, header, rows, props = {}) {
  return el(
    'table',
    props,
    el('caption', {}, el('span', { text: caption })),
    el('thead', {}, el('tr', {}, ...header.map((text) => el('th', { scope: 'col' }, term(text))))),
    el('tbody', {}, ...rows.map(([first, ...cells]) => el('tr', {}, el('th', { scope: 'row', text: first }), ...cells.map((text) => el('td', {}, term(text)))))),
  );
}

// Sizes a canvas to the screen's resolution and returns its context in CSS pixels.
function canvasContext(canvas, width, height) {
  const ratio = Math.min(3, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// A tooltip beside the pointer.
function makeTip(root) {
  const tip = el('div', { class: 'tip', 'aria-hidden': 'true' });
  tip.hidden = true;
  root.append(tip);
  return {
    show(event, text) {
      tip.textContent = text;
      tip.hidden = false;
      const { offsetWidth: width, offsetHeight: height } = tip;
      const left = Math.min(event.clientX + 14, window.innerWidth - width - 8);
      const top = event.clientY + 18 + height > window.innerHeight ? event.clientY - height - 10 : event.clientY + 18;
      tip.style.left = `${Math.max(8, left)}px`;
      tip.style.top = `${top}px`;
    },
    hide() {
      tip.hidden = true;
    },
  };
}
