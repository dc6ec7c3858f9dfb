// Optional script of static pages: a button that switches colours, and details that open for printing.

const button = document.querySelector('.theme');

function label() {
  button.textContent = isDark() ? 'Light' : 'Dark';
  button.setAttribute('aria-label', `Switch to ${isDark() ? 'light' : 'dark'} colours`);
}

button.hidden = false;
button.addEventListener('click', () => {
  document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
  label();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', label);
label();

let closed = [];
window.addEventListener('beforeprint', () => {
  closed = [...document.querySelectorAll('details:not([open])')];
  for (const details of closed) details.open = true;
});
window.addEventListener('afterprint', () => {
  for (const details of closed) details.open = false;
});
document.documentElement.dataset.ready = 'true';
