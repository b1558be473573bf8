// One colour for what a scope does, the same everywhere on the page.

const FAMILIES = [
  [/wait|barrier|\bsync/, 24], [/dot|mma|wgmma/, 145], [/async copy|tma|copy/, 200], [/load|gather/, 215],
  [/store|scatter/, 178], [/atomic/, 340], [/reduce|sum|max|scan|exchange/, 275], [/convert|layout|trans/, 305],
];
const FRAMES = new Set(["kernel", "loop", "iteration", "gap"]);

function hash(text) {
  let value = 7;
  for (const char of text) value = (value * 31 + char.codePointAt(0)) >>> 0;
  return value;
}

/** By site: the fill and the ink of its bars, for a light or a dark page. */
export function siteColours(sites, dark) {
  return sites.scope.map((scope, i) => {
    const kind = sites.kind[i];
    if (FRAMES.has(kind)) {
      const step = kind === "kernel" ? 0 : kind === "loop" ? 1 : kind === "gap" ? 4 : 2;
      const light = dark ? 26 + 5 * step : 90 - 4 * step;
      return { fill: `hsl(222 12% ${light}%)`, ink: dark ? "#dfe3ea" : "#2b3240" };
    }
    const family = FAMILIES.find(([pattern]) => pattern.test(scope.toLowerCase()));
    const shift = hash(scope + sites.line[i]) % 5;
    const hue = family ? family[1] + (shift - 2) * 4 : hash(scope) % 360;
    const bright = hue > 40 && hue < 205; // to the eye: white letters need a darker ground there
    const light = (dark ? (bright ? 29 : 39) : 66) + (shift - 2) * (dark ? 1.5 : 3);
    return { fill: `hsl(${hue} ${dark ? 48 : 62}% ${light}%)`, ink: dark ? "#ffffff" : "#10151f" };
  });
}

/** For CTAs, from much shorter than the median to much longer. */
export function speedColours(dark) {
  const light = dark ? 40 : 74;
  return [210, 210, 210, 212, 215, 45, 35, 25, 12].map((hue, i) => {
    const far = Math.abs(i - 4);
    return { fill: `hsl(${hue} ${i === 4 ? 22 : 30 + 11 * far}% ${light - (i > 4 ? 3 * far : -2 * far)}%)`, ink: dark ? "#ffffff" : "#10151f" };
  });
}

export function kernelColours(dark) {
  return Array.from({ length: 32 }, (_, i) => ({ fill: `hsl(${(215 + 67 * i) % 360} 45% ${dark ? 42 : 70}%)`, ink: dark ? "#ffffff" : "#10151f" }));
}
