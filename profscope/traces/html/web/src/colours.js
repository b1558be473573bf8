// One colour for what a scope does, the same everywhere on the page.

const FRAMES = new Set(["kernel", "loop", "iteration", "gap"]); // as in profscope/analysis/scope_colours.py
const LEAST = 4.5; // contrast of small letters, by WCAG's level AA

/** A fill, as light as asked for or, where letters on it would be hard to read, so much lighter or darker; and their ink. */
function bar(hue, saturation, light, dark) {
  const ink = dark ? "#ffffff" : "#10151f";
  const step = dark ? -1 : 1;
  while (contrast(luminance(hue, saturation, light), dark ? 1 : 0.0075) < LEAST) light += step;
  return { fill: `hsl(${hue} ${saturation}% ${light}%)`, ink };
}

const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);

/** The relative luminance of an hsl() colour, by https://www.w3.org/TR/WCAG21/#dfn-relative-luminance */
function luminance(hue, saturation, light) {
  const l = light / 100, a = (saturation / 100) * Math.min(l, 1 - l);
  const channel = (n) => {
    const k = (n + hue / 30) % 12;
    const value = l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(0) + 0.7152 * channel(8) + 0.0722 * channel(4);
}

/** By site: the fill and the ink of its bars, for a light or a dark page; figures have the same fills. Those of
 * kernels, loops and iterations alone are dark on a dark page: what stands in them is to be seen before them. */
export function siteColours(sites, dark) {
  return sites[dark ? "dark" : "light"].map((fill, i) => ({ fill, ink: dark && FRAMES.has(sites.kind[i]) ? "#ffffff" : "#10151f" }));
}

/** For CTAs, from much shorter than the median to much longer. */
export function speedColours(dark) {
  const light = dark ? 40 : 74;
  return [210, 210, 210, 212, 215, 45, 35, 25, 12].map((hue, i) => {
    const far = Math.abs(i - 4);
    return bar(hue, i === 4 ? 22 : 30 + 11 * far, light - (i > 4 ? 3 * far : -2 * far), dark);
  });
}

export function kernelColours(dark) {
  return Array.from({ length: 32 }, (_, i) => bar((215 + 67 * i) % 360, 45, dark ? 42 : 70, dark));
}
