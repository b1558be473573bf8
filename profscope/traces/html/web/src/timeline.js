// The timeline: which level is looked at, which part of it, and what keys and pointers do.

import { AXIS, GUTTER, MINIMAP, drawFrame, drawMinimap, toTime } from "./draw.js";
import { kernelColours, siteColours, speedColours } from "./colours.js";
import { ctaLevel, itemText, launchLevel, programLevel, smLevel } from "./levels.js";
import { Panel } from "./panel.js";
import { make } from "./words.js";

const HELP = "w s zoom · a d pan · drag to pan, Shift+drag to select, Ctrl+wheel to zoom · Enter or double-click looks inside, Esc goes out · arrows step · f fits · / searches";

export class Timeline {
  constructor(root, profile, { onLine }) {
    Object.assign(this, { profile, onLine, scroll: 0, matches: null, hover: null, chosen: null, range: null, keys: new Set(), cache: new Map(), frames: 0 });
    this.crumbs = make("nav", { class: "crumbs", "aria-label": "Level of the timeline" });
    this.search = make("input", { type: "search", placeholder: "Search scopes, or :line", "aria-label": "Search the timeline" });
    this.found = make("output", { class: "found" });
    const buttons = [["−", "Zoom out (s)", () => this.zoom(1.6)], ["+", "Zoom in (w)", () => this.zoom(1 / 1.6)], ["Fit", "Show all of it (f)", () => this.fit()]];
    const bar = make("div", { class: "bar" }, this.crumbs, make("span", { class: "spring" }), this.search, this.found,
      ...buttons.map(([text, title, onclick]) => make("button", { type: "button", title, "aria-label": title, onclick }, text)));
    this.minimap = make("canvas", { class: "minimap", height: MINIMAP, "aria-hidden": "true", title: "How much runs at once, from the begin to the end of this level; the frame is what is seen below" });
    this.canvas = make("canvas", { class: "canvas", tabindex: "0", role: "application", "aria-label": `Timeline. ${HELP}` });
    this.tip = make("div", { class: "tip", hidden: true, role: "status" });
    this.panel = new Panel(this);
    root.append(bar, this.minimap, make("div", { class: "stage" }, this.canvas, this.tip), make("p", { class: "help" }, HELP), this.panel.root);
    this.root = root;
    this.listen();
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
    this.countMatches();
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

  /** Dim all but the scopes whose name, or `:line`, has the text. */
  find(text) {
    const { around, sites } = this.profile;
    const wanted = text.trim().toLowerCase();
    this.named = wanted ? around.names.map((name) => name.toLowerCase().includes(wanted)) : null;
    this.matches = wanted ? sites.scope.map((scope, i) => (wanted.startsWith(":") ? `:${sites.line[i]}` === wanted : scope.toLowerCase().includes(wanted))) : null;
    this.countMatches();
    this.changed();
  }

  isMatch(row, item) {
    const { around, spans } = this.profile;
    return row.what === "span" ? this.matches[spans.site[item]] : row.what === "around" && this.named[around.name[item]];
  }

  countMatches() {
    if (!this.matches) return void (this.found.value = "");
    const { around, spans } = this.profile;
    let all = spans.site.reduce((sum, site) => sum + (this.matches[site] ? 1 : 0), 0);
    for (let i = 0; i < around.count; i++) all += this.named[around.name[i]] ? 1 : 0;
    let here = 0;
    for (const row of this.level.rows) for (const item of row.items) here += this.isMatch(row, item) ? 1 : 0;
    this.found.value = all ? `${here.toLocaleString("en")} here, ${all.toLocaleString("en")} in all` : "nothing";
  }

  /** The next match after the chosen one; where this level has none, in the first CTA that has some. */
  next(direction) {
    if (!this.matches) return;
    const { around, spans, ctas } = this.profile;
    const found = [];
    for (const row of this.level.rows) for (let i = 0; i < row.count; i++) if (this.isMatch(row, row.items[i])) found.push({ row, i, item: row.items[i] });
    if (found.length) {
      found.sort((a, b) => a.row.starts[a.i] - b.row.starts[b.i]);
      const now = this.chosen ? found.findIndex((each) => each.row === this.chosen.row && each.i === this.chosen.i) : direction > 0 ? -1 : 0;
      return this.reveal(found[(now + direction + found.length) % found.length]);
    }
    for (let cta = 0; cta < ctas.count; cta++)
      for (let i = ctas.first[cta]; i >= 0 && i < ctas.first[cta] + ctas.spans[cta]; i++)
        if (this.matches[spans.site[i]]) {
          this.show(this.levelOf("cta", cta));
          return this.next(direction);
        }
    if (around.count && this.level.kind !== "program" && this.named.some(Boolean)) {
      this.show(this.levelOf("program"));
      this.next(direction);
    }
  }

  /** Look at a CTA or launch, and mark the sites of a line. */
  goTo(kind, at, line) {
    this.show(this.levelOf(kind, at));
    this.search.value = line && kind === "cta" ? `:${line}` : "";
    this.find(this.search.value);
    if (line && kind === "cta") this.next(1);
    this.root.scrollIntoView({ block: "start" });
    this.canvas.focus({ preventScroll: true });
  }

  listen() {
    const { canvas, minimap } = this;
    const place = (event) => [event.offsetX, event.offsetY];
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = place(event);
      canvas.setPointerCapture(event.pointerId);
      drag = { x, y, from: this.from, to: this.to, scroll: this.scroll, moved: false, select: event.shiftKey || y < AXIS };
      if (drag.select) this.range = [toTime(this, x), toTime(this, x)];
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      this.hoverY = y;
      this.hoverX = x;
      if (!drag) return this.hoverAt(x, y);
      drag.moved ||= Math.hypot(x - drag.x, y - drag.y) > 3;
      if (drag.select) this.range = [this.range[0], toTime(this, Math.max(GUTTER, x))];
      else if (drag.moved) {
        const by = ((drag.x - x) / (this.width - GUTTER)) * (drag.to - drag.from);
        this.setWindow(drag.from + by, drag.to + by);
        this.scrollTo(drag.scroll + drag.y - y);
      }
      this.changed();
    });
    const end = (event) => {
      if (!drag) return;
      const { moved, select } = drag;
      drag = null;
      if (select && moved) return this.panel.show();
      this.range = null;
      this.choose(moved ? this.chosen : this.pick(...place(event)));
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", () => (drag = null));
    canvas.addEventListener("pointerleave", () => this.hoverAt(-1, -1));
    canvas.addEventListener("dblclick", (event) => {
      const picked = this.pick(...place(event));
      if (picked) this.into(picked.row, picked.item);
    });
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) {
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY * 0.0022), Math.max(GUTTER, event.offsetX), event.offsetY);
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.pan(event.deltaX / this.width);
      } else {
        const before = this.scroll;
        this.scrollTo(this.scroll + event.deltaY);
        if (this.scroll !== before) event.preventDefault();
      }
    }, { passive: false });
    const jump = (event) => {
      if (!(event.buttons & 1)) return;
      const { level } = this;
      const time = level.from + ((event.offsetX - GUTTER) / (this.width - GUTTER)) * (level.to - level.from);
      const size = this.to - this.from;
      this.setWindow(time - size / 2, time + size / 2);
    };
    minimap.addEventListener("pointerdown", jump);
    minimap.addEventListener("pointermove", jump);
    canvas.addEventListener("keydown", (event) => this.keyDown(event));
    canvas.addEventListener("keyup", (event) => this.keys.delete(event.key.toLowerCase()));
    canvas.addEventListener("blur", () => this.keys.clear());
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") canvas.focus();
    });
  }

  keyDown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    const once = {
      f: () => this.fit(), escape: () => this.out(), backspace: () => this.out(),
      enter: () => this.chosen && this.into(this.chosen.row, this.chosen.item),
      "/": () => this.search.focus(), n: () => this.next(event.shiftKey ? -1 : 1),
      arrowleft: () => this.step(-1, 0), arrowright: () => this.step(1, 0), arrowup: () => this.step(0, -1), arrowdown: () => this.step(0, 1),
    }[key];
    if (!once && !"wasd".includes(key)) return;
    event.preventDefault();
    if (once) return once();
    this.keys.add(key);
    this.held ??= requestAnimationFrame((now) => this.move(now, now));
  }

  /** While keys are held: a frame's part of zooming and panning. */
  move(before, now) {
    this.held = undefined;
    const passed = Math.min(50, now - before || 16);
    const x = this.hoverX > GUTTER ? this.hoverX : (this.width + GUTTER) / 2;
    if (this.keys.has("a")) this.pan(-passed / 700);
    if (this.keys.has("d")) this.pan(passed / 700);
    if (this.keys.has("w")) this.zoom(Math.exp(-passed / 350), x);
    if (this.keys.has("s")) this.zoom(Math.exp(passed / 350), x);
    if (this.keys.size) this.held = requestAnimationFrame((next) => this.move(now, next));
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
    this.paints = { span: siteColours(this.profile.sites, dark), cta: speedColours(dark), launch: kernelColours(dark), around: kernelColours(dark) };
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
