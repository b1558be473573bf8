// Numbers as a reader wants them: three digits and a unit.

const STEPS = {
  ns: [["ns", 1], ["us", 1e3], ["ms", 1e6], ["s", 1e9]],
  cycles: [["cycles", 1], ["k cycles", 1e3], ["M cycles", 1e6], ["G cycles", 1e9]],
};

/** By the number of digits behind the point. Each frame formats a few: making a formatter takes longer than that. */
const WITH_DIGITS = Array.from({ length: 7 }, (_, digits) => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));

export function duration(value, unit) {
  const steps = STEPS[unit];
  const [name, scale] = steps.find(([, s]) => Math.abs(value) / s < 999.5) || steps[steps.length - 1];
  const scaled = value / scale;
  if (scale === 1 && Number.isInteger(scaled)) return `${scaled} ${name}`;
  const size = Math.abs(scaled);
  return `${scaled.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0)} ${name}`;
}

/** A moment, with as many digits as tell neighbours `step` apart from each other; most: the latest beside it. */
export function moment(value, step, unit, most) {
  const steps = STEPS[unit];
  const [name, scale] = [...steps].reverse().find(([, s]) => s === 1 || (most >= s && step >= s / 1000));
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / scale) + 1e-9)));
  const shown = value / scale || 0; // never -0
  if (!shown) return "0";
  return `${WITH_DIGITS[digits].format(shown)} ${name}`;
}

/** A duration on an axis that names the unit itself where that is long. */
export const tick = (value, unit) => duration(value, unit).replace(/ ?cycles$/, "").replace(/\.0+ /, " ");

export const count = (value) => value.toLocaleString("en");

export const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** A scope and its line, which a loop's name has already. */
export function placed(sites, site) {
  const scope = sites.scope[site], line = sites.line[site];
  return line && !scope.endsWith(` L${line}`) ? `${scope}, line ${line}` : scope;
}

/** An element with text or elements in it; text never becomes markup. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}
