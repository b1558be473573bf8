// The timeline: which level is looked at, and which part of it.

import { kernelColours, siteColours, speedColours } from "./colours.js";
import { AXIS, GUTTER, MINIMAP, drawFrame, drawMinimap, toTime } from "./draw.js";
import { listen } from "./input.js";
import { ctaLevel, itemText, launchLevel, programLevel, smLevel } from "./levels.js";
import { Panel } from "./panel.js";
import { Search } from "./search.js";
import { Strips, pixelsOf } from "./strips.js";
import { make } from "./words.js";

const HELP = "w s zoom · a d pan · drag to pan, Shift+drag to select, Ctrl+wheel to zoom · Enter or double-click looks inside, Esc goes out · arrows step · f fits · / searches";

export class Timeline {
  constructor(root, profile, { onLine }) {
    Object.assign(this, { profile, onLine, scroll: 0, hover: null, chosen: null, range: null, cache: new Map(), strips: new Strips(), frames: 0 });
    this.crumbs = make("nav", { class: "crumbs", "aria-label": "Level of the timeline" });
    this.search = new Search(this);
    const buttons = [["−", "Zoom out (s)", () => this.zoom(1.6)], ["+", "Zoom in (w)", () => this.zoom(1 / 1.6)], ["Fit", "Show all of it (f)", () => this.fit()]];
    const bar = make("div", { class: "bar" }, this.crumbs, make("span", { class: "spring" }), this.search.field, this.search.found,
      ...buttons.map(([text, title, onclick]) => make("button", { type: "button", title, "aria-label": title, onclick }, text)));
    this.minimap = make("canvas", { class: "minimap", height: MINIMAP, "aria-hidden": "true", title: "How much runs at once, from the begin to the end of this level; the frame is what is seen below" });
    this.canvas = make("canvas", { class: "canvas", tabindex: "0", role: "application", "aria-label": `Timeline. ${HELP}` });
    this.tip = make("div", { class: "tip", hidden: true, role: "status" });
    this.panel = new Panel(this);
    root.append(bar, this.minimap, make("div", { class: "stage" }, this.canvas, this.tip), make("p", { class: "help" }, HELP), this.panel.root);
    this.root = root;
    listen(this);
    this.repaint();
    this.showKernel(0);
    new ResizeObserver(() => this.resize()).observe(root);
    this.resize();
  }

  /** The longest launch of a kernel; where none is in the page, all launches. */
  showKernel(kernel) {
    const { launches } = this.profile;
    let best = -1;
    for (let i = 0; i < launches.count; i++)
      if (launches.kernel[i] === kernel && launches.ctas[i].length && (best < 0 || launches.duration[i] > launches.duration[best])) best = i;
    if (best < 0) return this.show(this.levelOf("program"));
    const own = launches.ctas[best];
    this.show(own.length > 1 ? this.levelOf("launch", best) : this.levelOf("cta", own[0]));
  }

  levelOf(kind, ...which) {
    const key = [kind, ...which].join(" ");
    if (!this.cache.has(key)) {
      const makers = { program: programLevel, launch: launchLevel, sm: smLevel, cta: ctaLevel };
      if (this.cache.size > 24) this.cache.clear();
      this.cache.set(key, makers[kind](this.profile, ...which.map(Number)));
    }
    return this.cache.get(key);
  }

  /** Look at a level: at [from, to] of it, or at all of it. */
  show(level, from = level.from, to = level.to) {
    Object.assign(this, { level, hover: null, chosen: null, range: null, scroll: 0 });
    this.setWindow(from, to);
    this.drawCrumbs();
    this.canvas.style.height = `${Math.max(120, Math.min(level.height + AXIS + 10, Math.round(window.innerHeight * 0.62)))}px`;
    this.resize();
    this.panel.show();
    this.search.count();
  }

  setWindow(from, to) {
    const whole = this.level.to - this.level.from;
    const size = Math.max(whole * 1e-9, 1, Math.min(to - from, whole * 1.02));
    const middle = (from + to) / 2;
    const margin = whole * 0.01;
    let begin = middle - size / 2;
    begin = Math.max(this.level.from - margin, Math.min(begin, this.level.to + margin - size));
    [this.from, this.to] = [begin, begin + size];
    this.changed();
  }

  parents() {
    const { level } = this;
    const path = [];
    if (this.profile.launches.count > 1 || this.profile.around.count) path.push(["program"]);
    if (level.launch !== undefined) path.push(["launch", level.launch]);
    if (level.sm !== undefined) path.push(["sm", level.launch, level.sm]);
    if (level.cta !== undefined) path.push(["cta", level.cta]);
    return path;
  }

  drawCrumbs() {
    const path = this.parents();
    this.crumbs.replaceChildren(...path.flatMap((which, i) => {
      const level = this.levelOf(...which);
      const last = i === path.length - 1;
      const item = last ? make("b", { "aria-current": "location" }, level.title) : make("button", { type: "button", onclick: () => this.show(level) }, level.title);
      return i ? [make("span", {}, "›"), item] : [item];
    }));
  }

  /** Out to the level around; its window is where this level lies in it. */
  out(keep = false) {
    const path = this.parents();
    if (path.length < 2) return this.fit();
    const { level, profile } = this;
    const parent = this.levelOf(...path[path.length - 2]);
    let { from, to } = level;
    if (level.kind === "launch") {
      from = profile.launches.start[level.launch];
      to = from + profile.launches.duration[level.launch];
    }
    const size = to - from;
    this.show(parent, ...(keep ? [from - size * 0.2, to + size * 0.2] : []));
  }

  /** Into a bar: a launch's SMs, an SM's warps, a CTA's. */
  into(row, item, keep = false) {
    const window = keep ? [this.from, this.to] : [];
    const { around } = this.profile;
    if (row.what === "around") {
      const launch = around.launch[item];
      if (launch >= 0 && this.profile.launches.ctas[launch].length) this.show(this.levelOf("launch", launch));
      else this.setWindow(around.begin[item] - around.duration[item] * 0.05, around.begin[item] + around.duration[item] * 1.05);
    } else if (row.what === "launch" && this.profile.launches.ctas[item].length) this.show(this.levelOf("launch", item));
    else if (row.what === "cta" && this.level.kind === "launch") {
      const { start, duration, sm } = this.profile.ctas;
      const margin = duration[item] * 0.1;
      const near = keep ? window : [start[item] - margin, start[item] + duration[item] + margin];
      this.show(this.levelOf("sm", this.level.launch, sm[item]), ...near);
    } else if (row.what === "cta") this.show(this.levelOf("cta", item), ...window);
    else if (row.what === "span" && this.level.kind === "sm") this.show(this.levelOf("cta", this.ctaOf(item)), ...window);
  }

  ctaOf(span) {
    const { ctas, launches } = this.profile;
    return launches.ctas[this.level.launch].find((cta) => ctas.first[cta] >= 0 && span >= ctas.first[cta] && span < ctas.first[cta] + ctas.spans[cta]);
  }

  fit() {
    this.setWindow(this.level.from, this.level.to);
  }

  /** Zoom about a time; what fills the view is entered, and who zooms out of a level sees the one around it. */
  zoom(factor, x = (this.width + GUTTER) / 2, y = null) {
    const size = (this.to - this.from) * factor;
    const { level } = this;
    if (factor > 1 && this.to - this.from >= (level.to - level.from) * 1.015 && this.parents().length > 1) return this.out(true);
    const time = toTime(this, x);
    const at = this.pick(x, y ?? (this.hoverY ?? AXIS + 4));
    if (factor < 1 && at && at.row.what === "cta") {
      const { start, duration } = this.profile.ctas;
      if (start[at.item] <= time && duration[at.item] > 1.3 * size && (level.kind === "launch" || this.profile.ctas.first[at.item] >= 0))
        return this.into(at.row, at.item, true);
    }
    const part = (x - GUTTER) / (this.width - GUTTER);
    if (factor < 1 && at && at.row.what === "launch") {
      const { start, duration, ctas } = this.profile.launches;
      const begin = start[at.item];
      if (begin <= time && duration[at.item] > 1.3 * size && ctas[at.item].length)
        return this.show(this.levelOf("launch", at.item), time - part * size - begin, time + (1 - part) * size - begin);
    }
    this.setWindow(time - part * size, time + (1 - part) * size);
  }

  pan(part) {
    const by = (this.to - this.from) * part;
    this.setWindow(this.from + by, this.to + by);
  }

  scrollTo(value) {
    const most = Math.max(0, this.level.height + AXIS + 6 - this.height);
    this.scroll = Math.max(0, Math.min(most, value));
    this.changed();
    return most > 0;
  }

  pick(x, y) {
    const row = this.level.rows.find((each) => y >= AXIS + each.y - this.scroll && y < AXIS + each.y + each.height + 1 - this.scroll);
    if (!row || x < GUTTER || y < AXIS) return null;
    const i = row.at(toTime(this, x), (3 * (this.to - this.from)) / this.width);
    return i < 0 ? null : { row, i, item: row.items[i] };
  }

  choose(picked) {
    this.chosen = picked;
    this.panel.show();
    this.changed();
  }

  /** Bring a bar into the view. */
  reveal(picked) {
    const start = picked.row.starts[picked.i], end = picked.row.ends[picked.i];
    if (start < this.from || end > this.to) {
      const size = Math.max(this.to - this.from, (end - start) * 1.5);
      this.setWindow((start + end - size) / 2, (start + end + size) / 2);
    }
    if (picked.row.y < this.scroll || picked.row.y + picked.row.height > this.scroll + this.height - AXIS) this.scrollTo(picked.row.y - this.height / 2);
    this.choose(picked);
  }

  step(across, down) {
    const { rows } = this.level;
    if (!this.chosen) {
      const row = rows.find((each) => each.count);
      if (row) this.reveal({ row, i: row.seen(this.from, this.to)[0] % row.count, item: row.items[row.seen(this.from, this.to)[0] % row.count] });
      return;
    }
    let { row, i } = this.chosen;
    if (across) i = Math.max(0, Math.min(row.count - 1, i + across));
    else {
      const middle = (row.starts[i] + row.ends[i]) / 2;
      let at = rows.indexOf(row) + down;
      while (rows[at] && !rows[at].count) at += down;
      if (!rows[at]) return;
      row = rows[at];
      i = Math.min(row.count - 1, row.seen(middle, middle)[0]);
    }
    this.reveal({ row, i, item: row.items[i] });
  }

  /** Look at a CTA or launch, and mark the sites of a line. */
  goTo(kind, at, line) {
    this.show(this.levelOf(kind, at));
    this.search.find(line && kind === "cta" ? `:${line}` : "");
    if (line && kind === "cta") this.search.next(1);
    this.comeIntoView();
    this.canvas.focus({ preventScroll: true });
  }

  /** With its title, below the head of the page. */
  comeIntoView() {
    (this.root.closest("section") || this.root).scrollIntoView({ block: "start" });
  }

  hoverAt(x, y) {
    const picked = x < 0 ? null : this.pick(x, y);
    this.tip.hidden = !picked;
    if (picked) {
      this.tip.textContent = itemText(this.profile, picked.row, picked.item);
      this.tip.style.left = `${Math.min(x + 14, this.width - this.tip.offsetWidth - 4)}px`;
      this.tip.style.top = `${y + 16}px`;
    }
    if ((picked && picked.item) !== (this.hover && this.hover.item)) {
      this.hover = picked;
      this.changed();
    }
  }

  repaint() {
    const style = getComputedStyle(document.documentElement);
    const names = { paper: "--paper", panel: "--panel", ink: "--ink", dim: "--dim", line: "--line", range: "--accent", mark: "--accent", arc: "--arc" };
    this.theme = Object.fromEntries(Object.entries(names).map(([key, name]) => [key, style.getPropertyValue(name).trim()]));
    const dark = style.getPropertyValue("--is-dark").trim() === "1";
    this.theme.flight = dark ? 0.4 : 0.55; // how strong bars of what is in flight are: letters on them have the page's colour
    this.paints = { span: siteColours(this.profile.sites, dark), cta: speedColours(dark), launch: kernelColours(dark), around: kernelColours(dark) };
    this.pixels = Object.fromEntries(Object.entries(this.paints).map(([what, paints]) => [what, pixelsOf(paints)]));
    if (!this.level) return;
    this.panel.show();
    this.changed();
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    for (const [canvas, height] of [[this.canvas, this.height], [this.minimap, MINIMAP]]) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.changed();
  }

  changed() {
    this.waiting ??= requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.waiting = undefined;
    if (!this.width) return;
    drawFrame(this.canvas.getContext("2d"), this);
    drawMinimap(this.minimap.getContext("2d"), this);
    this.frames++;
  }
}
