// The page is whole without this: a button for its colours, and tables that are open on paper.

const button = document.querySelector('.theme');

function name() {
  button.textContent = isDark() ? 'Light' : 'Dark';
  button.setAttribute('aria-label', `Switch to ${isDark() ? 'light' : 'dark'} colours`);
}

button.hidden = false;
button.addEventListener('click', () => {
  document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
  name();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', name);
name();

let closed = [];
window.addEventListener('beforeprint', () => {
  closed = [...document.querySelectorAll('details:not([open])')];
  for (const one of closed) one.open = true;
});
window.addEventListener('afterprint', () => {
  for (const one of closed) one.open = false;
});
document.documentElement.dataset.ready = 'true';
