// The search of the timeline: what matches is counted, stepped through, and all else is dim.

import { make } from "./words.js";

export class Search {
  constructor(timeline) {
    Object.assign(this, { timeline, matches: null, named: null });
    this.field = make("input", { type: "search", placeholder: "Search scopes, or :line", "aria-label": "Search the timeline" });
    this.found = make("output", { class: "found" });
    this.field.addEventListener("input", () => this.look());
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") timeline.canvas.focus();
    });
  }

  /** Dim all but the scopes whose name, or `:line`, has the text. */
  find(text) {
    this.field.value = text;
    this.look();
  }

  look() {
    const { around, sites } = this.timeline.profile;
    const wanted = this.field.value.trim().toLowerCase();
    this.named = wanted ? around.names.map((name) => name.toLowerCase().includes(wanted)) : null;
    this.matches = wanted ? sites.scope.map((scope, i) => (wanted.startsWith(":") ? `:${sites.line[i]}` === wanted : scope.toLowerCase().includes(wanted))) : null;
    this.count();
    this.timeline.changed();
  }

  isMatch(row, item) {
    const { around, spans } = this.timeline.profile;
    return row.what === "span" ? this.matches[spans.site[item]] : row.what === "around" && this.named[around.name[item]];
  }

  count() {
    if (!this.matches) return void (this.found.value = "");
    const { level, profile } = this.timeline;
    const { around, spans } = profile;
    let all = spans.site.reduce((sum, site) => sum + (this.matches[site] ? 1 : 0), 0);
    for (let i = 0; i < around.count; i++) all += this.named[around.name[i]] ? 1 : 0;
    let here = 0;
    for (const row of level.rows) for (const item of row.items) here += this.isMatch(row, item) ? 1 : 0;
    this.found.value = all ? `${here.toLocaleString("en")} here, ${all.toLocaleString("en")} in all` : "nothing";
  }

  /** The next match after the chosen one; where this level has none, in the first CTA that has some. */
  next(direction) {
    if (!this.matches) return;
    const { timeline } = this;
    const { around, spans, ctas } = timeline.profile;
    const found = [];
    for (const row of timeline.level.rows) for (let i = 0; i < row.count; i++) if (this.isMatch(row, row.items[i])) found.push({ row, i, item: row.items[i] });
    if (found.length) {
      found.sort((a, b) => a.row.starts[a.i] - b.row.starts[b.i]);
      const now = timeline.chosen ? found.findIndex((each) => each.row === timeline.chosen.row && each.i === timeline.chosen.i) : direction > 0 ? -1 : 0;
      return timeline.reveal(found[(now + direction + found.length) % found.length]);
    }
    for (let cta = 0; cta < ctas.count; cta++)
      for (let i = ctas.first[cta]; i >= 0 && i < ctas.first[cta] + ctas.spans[cta]; i++)
        if (this.matches[spans.site[i]]) {
          timeline.show(timeline.levelOf("cta", cta));
          return this.next(direction);
        }
    if (around.count && timeline.level.kind !== "program" && this.named.some(Boolean)) {
      timeline.show(timeline.levelOf("program"));
      this.next(direction);
    }
  }
}
