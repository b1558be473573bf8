// Distributions: charts by uPlot, the heat map by ourselves.

import uPlot from "uplot";
import * as words from "./words.js";
import { make } from "./words.js";

const BINS = 8; // of a histogram, for each doubling: see spans.py
const TALL = 220;
const WHOLE = Array.from({ length: 30 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3)); // steps of an axis that counts

/** Round numbers between two, for an axis of logarithms: a few, about as far from each other. */
function roundOnes(low, high) {
  const digits = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7], [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9]];
  const powers = Array.from({ length: 30 }, (_, i) => 10 ** (i - 9));
  const found = digits.map((each) => powers.flatMap((power) => each.map((digit) => digit * power)).filter((value) => value >= low && value <= high));
  return found.find((each) => each.length >= 3) || found[found.length - 1];
}

export class Charts {
  constructor(root, profile) {
    Object.assign(this, { root, profile, drawn: [] });
    this.launchPicker = make("select", { "aria-label": "Launch", onchange: () => this.drawLaunch() });
    this.scopePicker = make("select", { "aria-label": "Scope", onchange: () => this.drawHistogram() });
    this.part = make("span", { class: "dim" });
    this.launchHead = make("p", { class: "pick" }, "Launch ", this.launchPicker, " ", this.part);
    this.boxes = {};
    const box = (name, title, about, ...extra) => (this.boxes[name] = make("figure", { id: `chart-${name}` }, make("figcaption", {}, make("b", {}, title), make("span", {}, about), ...extra), make("div", { class: "plot" })));
    root.append(
      make("div", { class: "charts" },
        box("histogram", "How long a scope takes", "all its spans, by duration; eight bins to a doubling", this.scopePicker),
      ),
      this.launchHead,
      make("div", { class: "charts" },
        box("heat", "CTAs on each SM over time", "the stronger the colour, the more at once; grey: no CTA that was recorded"),
        box("waves", "CTAs at once", "how the launch fills the device, wave by wave, and its tail"),
        box("sorted", "CTA durations, sorted", "a flat line: all CTAs do the same"),
      ),
    );
    this.kernel = 0;
  }

  /** Draw what is about one kernel. */
  show(kernel) {
    this.kernel = kernel;
    const { profile } = this;
    const { facts, launches, sites } = profile;
    const own = [...launches.kernel.keys()].filter((i) => launches.kernel[i] === kernel && launches.ctas[i].length);
    own.sort((a, b) => launches.duration[b] - launches.duration[a]);
    this.launchPicker.replaceChildren(...own.slice(0, 200).map((i) => make("option", { value: i }, `${launches.number[i]}, ${words.duration(launches.duration[i], profile.unit)}`)));
    this.histograms = new Map(facts.kernels[kernel].histograms.map(([site, first, counts]) => [site, [first, counts]]));
    const total = (site) => this.histograms.get(site)[1].reduce((sum, n, k) => sum + n * 2 ** ((this.histograms.get(site)[0] + k) / BINS), 0);
    const scopes = [...this.histograms.keys()].filter((i) => sites.kind[i] !== "mark");
    scopes.sort((a, b) => (sites.kind[a] === "kernel") - (sites.kind[b] === "kernel") || total(b) - total(a));
    this.scopePicker.hidden = !scopes.length;
    this.launchHead.hidden = !own.length;
    this.scopePicker.replaceChildren(...scopes.map((i) => make("option", { value: i }, words.placed(sites, i))));
    this.redraw();
  }

  redraw() {
    for (const plot of this.drawn) plot.destroy();
    this.drawn = [];
    this.colours();
    this.drawHistogram();
    this.drawLaunch();
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    this.theme = { ink: of("--ink"), dim: of("--dim"), line: of("--line"), accent: of("--accent"), soft: of("--soft"), warm: of("--warm"), paper: of("--paper"), dark: of("--is-dark") === "1" };
  }

  axis(label, format, side) {
    const { dim, line } = this.theme;
    return { label, stroke: dim, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : format(tick))), labelSize: 18, size: side ? 62 : 40, font: "11px system-ui", labelFont: "11px system-ui" };
  }

  plot(name, data, options) {
    const place = this.boxes[name].querySelector(".plot");
    place.replaceChildren();
    const width = Math.max(280, place.clientWidth || 480);
    const all = { width, height: TALL, legend: { show: false }, cursor: { y: false }, ...options };
    const made = new uPlot(all, data, place);
    this.drawn.push(made);
    return made;
  }

  none(name, why) {
    this.boxes[name].querySelector(".plot").replaceChildren(make("p", { class: "none" }, why));
  }

  drawHistogram() {
    const histogram = this.histograms.get(this.scopePicker.value === "" ? -1 : Number(this.scopePicker.value));
    if (!histogram) return this.none("histogram", "No spans of this kernel.");
    const [first, counts] = histogram;
    const x = [], y = [];
    for (let k = -1; k <= counts.length; k++) {
      x.push(2 ** ((first + k) / BINS));
      y.push(counts[k] || 0);
    }
    const total = counts.reduce((a, b) => a + b, 0);
    const { unit } = this.profile;
    this.boxes.histogram.dataset.total = String(total);
    this.plot("histogram", [x, y], {
      title: undefined,
      scales: { x: { time: false, distr: 3, log: 2, range: (_, low, high) => [low, high] }, y: { range: (_, low, high) => [0, high * 1.05 || 1] } },
      series: [{}, { stroke: this.theme.accent, fill: this.theme.soft, width: 1.5, paths: uPlot.paths.stepped({ align: 0 }), points: { show: false } }],
      axes: [{ ...this.axis(`duration${unit === "cycles" ? " in cycles" : ""}, ${words.count(total)} spans`, (v) => words.tick(v, unit)), splits: (_, __, low, high) => roundOnes(low, high), filter: (_, splits) => splits }, { ...this.axis("spans", words.count, true), incrs: WHOLE }],
    });
  }

  drawLaunch() {
    const picked = this.launchPicker.value;
    if (picked === "") {
      for (const name of ["heat", "waves", "sorted"]) this.none(name, "No launch of this kernel is in the page.");
      return;
    }
    const launch = Number(picked);
    const { ctas, launches, unit } = this.profile;
    const own = launches.ctas[launch];
    const time = (v) => words.tick(v, unit);
    const all = launches.grid[launch];
    this.part.textContent = own.length < all ? `${words.count(own.length)} of its ${words.count(all)} CTAs were recorded: the charts are of these, and other SMs may have been busy.` : "";
    const inUnit = unit === "cycles" ? ", cycles" : "";
    const sorted = own.map((cta) => ctas.duration[cta]).sort((a, b) => a - b);
    const ranks = sorted.map((_, i) => i + 1);
    this.plot("sorted", [ranks, sorted], {
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, high * 1.05 || 1] } },
      series: [{}, { stroke: this.theme.accent, width: 1.5, points: { show: own.length < 40 } }],
      axes: [{ ...this.axis("CTAs, shortest first", words.count), incrs: WHOLE }, this.axis(`duration${inUnit}`, time, true)],
    });
    const edges = own.flatMap((cta) => [[ctas.start[cta], 1], [ctas.start[cta] + ctas.duration[cta], -1]]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const x = [], y = [];
    let now = 0;
    for (const [at, change] of edges) {
      now += change;
      if (x.length && x[x.length - 1] === at) y[y.length - 1] = now;
      else {
        x.push(at);
        y.push(now);
      }
    }
    this.plot("waves", [x, y], {
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, high * 1.1 || 1] } },
      series: [{}, { stroke: this.theme.accent, fill: this.theme.soft, width: 1, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }],
      axes: [this.axis(`since the launch began${inUnit}`, time), { ...this.axis("CTAs", words.count, true), incrs: WHOLE }],
    });
    this.drawHeat(own, own.length >= all);
  }

  drawHeat(own, all) {
    const { ctas, facts, unit } = this.profile;
    if (own.every((cta) => ctas.sm[cta] < 0)) return this.none("heat", "Nobody says which SM a CTA ran on.");
    const place = this.boxes.heat.querySelector(".plot");
    const width = Math.max(280, place.clientWidth || 480);
    const sms = own.reduce((most, cta) => Math.max(most, ctas.sm[cta]), 0) + 1;
    const rows = Math.max(sms, all ? facts.sms ?? 0 : 0);
    const left = 54, bottom = 20, count = 160;
    const end = own.reduce((most, cta) => Math.max(most, ctas.start[cta] + ctas.duration[cta]), 1);
    const cells = new Float32Array(rows * count);
    for (const cta of own) {
      const low = (Math.max(0, ctas.start[cta]) / end) * count, high = ((ctas.start[cta] + ctas.duration[cta]) / end) * count;
      for (let b = Math.floor(low); b < Math.min(count, Math.ceil(high)); b++) cells[ctas.sm[cta] * count + b] += Math.min(high, b + 1) - Math.max(low, b);
    }
    const most = cells.reduce((a, b) => Math.max(a, b), 0);
    const canvas = make("canvas", { class: "heat", role: "img", "aria-label": `CTAs at once on ${rows} SMs` });
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = TALL * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${TALL}px`;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    const [wide, tall] = [(width - left) / count, (TALL - bottom) / rows];
    const { dark, line, dim } = this.theme;
    for (let sm = 0; sm < rows; sm++)
      for (let b = 0; b < count; b++) {
        const part = cells[sm * count + b] / (most || 1);
        g.fillStyle = part < 0.02 ? line : dark ? `hsl(215 ${40 + 30 * part}% ${18 + 44 * part}%)` : `hsl(215 ${45 + 20 * part}% ${93 - 53 * part}%)`;
        g.fillRect(left + b * wide, sm * tall, wide + 0.4, tall > 3 ? tall - 0.6 : tall + 0.3);
      }
    g.fillStyle = dim;
    g.font = "11px system-ui";
    g.textBaseline = "top";
    g.fillText("SM 0", 4, 0);
    g.textBaseline = "bottom";
    g.fillText(`SM ${rows - 1}`, 4, TALL - bottom);
    g.fillText("0", left, TALL - 2);
    const text = words.duration(end, unit);
    g.fillText(text, width - g.measureText(text).width, TALL - 2);
    place.replaceChildren(canvas, make("p", { class: "dim" }, `At most ${Number(most.toFixed(most < 10 ? 1 : 0))} ${most.toFixed(1) === "1.0" ? "CTA" : "CTAs"} at once on an SM.`));
  }
}
