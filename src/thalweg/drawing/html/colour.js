// Colours that colour-blind readers can tell apart: blue is positive, orange negative.

const COLOURS = {
  light: { paper: [255, 255, 255], more: [24, 90, 170], less: [200, 84, 8], ink: [24, 28, 36] },
  dark: { paper: [23, 27, 34], more: [120, 182, 255], less: [255, 168, 92], ink: [230, 234, 240] },
};

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function colours() {
  return COLOURS[isDark() ? 'dark' : 'light'];
}

function mix(from, to, part) {
  return from.map((channel, i) => Math.round(channel + (to[i] - channel) * part));
}

function css(rgb, alpha = 1) {
  return `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]} / ${alpha})`;
}

// Shade of a value between -1 and 1, as [red, green, blue].
function shade(value, theme = colours()) {
  const part = Math.min(1, Math.abs(value));
  return mix(theme.paper, value < 0 ? theme.less : theme.more, part);
}

// Dark or light text, whichever has more contrast on a shade.
function textColour(rgb) {
  const brightness = (rgb[0] * 299 + rgb[1] * 587 + rgb[2] * 114) / 1000;
  return brightness > 140 ? 'rgb(16 20 28)' : 'rgb(255 255 255)';
}
