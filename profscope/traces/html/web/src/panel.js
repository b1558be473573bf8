// What is chosen, in words: a bar, or all that is selected.

import * as words from "./words.js";
import { make } from "./words.js";

const MOST = 14;

export class Panel {
  constructor(timeline) {
    this.timeline = timeline;
    this.root = make("div", { class: "panel", "aria-live": "polite" });
  }

  show() {
    const { range, chosen } = this.timeline;
    this.root.replaceChildren(...(range ? this.selection() : chosen ? this.bar(chosen) : this.level()));
  }

  level() {
    const { level, profile } = this.timeline;
    const { ctas, spans, launches } = profile;
    if (level.kind === "cta") {
      const without = ctas.first[level.cta] < 0;
      return without ? [make("p", {}, "The spans of this CTA are not in this page. About, below, says which are.")] : [make("p", {}, ...this.legend(level))];
    }
    if (level.kind === "launch") {
      const own = launches.ctas[level.launch];
      const left = own.filter((cta) => ctas.first[cta] < 0).length;
      const text = `${ctasOf(launches, level.launch)} in ${words.duration(launches.duration[level.launch], profile.unit)}. Blue: as long as the median or shorter; amber to red: longer.`;
      return [make("p", {}, text, left ? ` The spans inside ${words.count(left)} of them are not in this page.` : "")];
    }
    if (level.kind === "sm") return [make("p", {}, ...this.legend(level))];
    const { around } = profile;
    const left = around.left ? ` ${words.count(around.left)} shorter ones are not in this page.` : "";
    const besides = around.count ? ` ${words.count(around.count)} scopes and events of the program.${left}` : "";
    return [make("p", {}, `${words.count(launches.count)} launches; ${words.count(spans.count)} spans.${besides}`)];
  }

  legend(level) {
    const { profile, paints } = this.timeline;
    const time = new Map();
    for (const row of level.rows) {
      if (row.what !== "span" || row.isAsync) continue;
      for (let i = 0; i < row.count; i++) time.set(row.paint[i], (time.get(row.paint[i]) || 0) + row.ends[i] - row.starts[i]);
    }
    const top = [...time.keys()].filter((site) => !["kernel", "iteration"].includes(profile.sites.kind[site])).sort((a, b) => time.get(b) - time.get(a)).slice(0, MOST);
    return top.map((site) => make("span", { class: "key" }, make("i", { style: `background:${paints.span[site].fill}` }), this.name(site)));
  }

  name(site) {
    const { sites } = this.timeline.profile;
    return words.placed(sites, site);
  }

  bar({ row, item }) {
    const { profile, level } = this.timeline;
    const { ctas, spans, sites, launches, unit } = profile;
    const time = (value) => words.duration(value, unit);
    if (row.what === "launch") {
      return [facts([["launch", String(launches.number[item])], ["kernel", launches.name[item]], ["duration", time(launches.duration[item])], ["recorded", ctasOf(launches, item)]]), this.into(row, item)];
    }
    if (row.what === "cta") {
      const sm = ctas.sm[item] < 0 ? [] : [["SM", String(ctas.sm[item])]];
      const own = launches.ctas[ctas.launch[item]].map((cta) => ctas.duration[cta]).sort((a, b) => a - b);
      const rank = own.filter((value) => value < ctas.duration[item]).length;
      return [facts([["CTA", String(ctas.number[item])], ...sm, ["began after", time(ctas.start[item])], ["duration", time(ctas.duration[item])], ["longer than", `${words.count(rank)} of ${words.count(own.length)} CTAs`]]), this.into(row, item)];
    }
    if (row.what === "around") {
      const { around } = profile;
      const list = [["name", around.names[around.name[item]]], ["kind", around.kinds[around.kind[item]]], ["began after", time(around.begin[item] - level.from)], ["duration", time(around.duration[item])]];
      if (around.launch[item] >= 0) list.push(["launch", String(launches.number[around.launch[item]])]);
      return [facts(list), around.launch[item] >= 0 ? this.into(row, item) : null].filter(Boolean);
    }
    const site = spans.site[item];
    const list = [["scope", sites.scope[site]], ["kind", sites.kind[site]], ["warp", String(spans.warp[item])], ["began after", time(spans.start[item] - level.from)], ["duration", time(spans.end[item] - spans.start[item])]];
    if (spans.iteration[item] >= 0) list.push(["iteration", String(spans.iteration[item])]);
    if (sites.stage[site]) list.push(["stage", sites.stage[site]]);
    if (spans.wait[item] >= 0) list.push(["ended by", `${this.name(spans.site[spans.wait[item]])}, warp ${spans.warp[spans.wait[item]]}`]);
    const ended = level.arcs.filter((arc) => arc.wait === item);
    if (ended.length) list.push(["it ended", ended.map((arc) => this.name(spans.site[arc.issue])).join("; ")]);
    const own = this.ofSite(site);
    list.push(["this scope here", `${words.count(own.count)} times, mean ${time(own.total / own.count)}, longest ${time(own.longest)}`]);
    const line = sites.line[site];
    const go = line ? make("button", { type: "button", onclick: () => this.timeline.onLine(sites.file[site], line) }, `Line ${line}`) : null;
    return [facts(list), go].filter(Boolean);
  }

  into(row, item) {
    return make("button", { type: "button", onclick: () => this.timeline.into(row, item) }, "Look inside (Enter)");
  }

  ofSite(site) {
    let count = 0, total = 0, longest = 0;
    for (const row of this.timeline.level.rows) {
      if (row.what !== "span") continue;
      for (let i = 0; i < row.count; i++)
        if (row.paint[i] === site) {
          const size = row.ends[i] - row.starts[i];
          count++;
          total += size;
          longest = Math.max(longest, size);
        }
    }
    return { count, total, longest };
  }

  /** By scope: what is inside the selected time, of all rows of the level. */
  statistics() {
    const { level, range, profile } = this.timeline;
    const [from, to] = [Math.min(...range), Math.max(...range)];
    const found = new Map();
    for (const row of level.rows) {
      if (level.kind !== "launch" && level.kind !== "program" && row.what !== "span") continue;
      const [low, high] = row.seen(from, to);
      for (let i = low; i < high; i++) {
        const key = row.what === "span" ? row.paint[i] : row.what === "around" ? `${profile.around.names[profile.around.name[row.items[i]]]}` : -1;
        const own = found.get(key) || { count: 0, total: 0, longest: 0 };
        const size = Math.min(to, row.ends[i]) - Math.max(from, row.starts[i]);
        own.count++;
        own.total += size;
        own.longest = Math.max(own.longest, row.ends[i] - row.starts[i]);
        found.set(key, own);
      }
    }
    return { from, to, found };
  }

  selection() {
    const { profile, level } = this.timeline;
    const { from, to, found } = this.statistics();
    const time = (value) => words.duration(value, profile.unit);
    const keys = [...found.keys()].sort((a, b) => found.get(b).total - found.get(a).total);
    const head = make("tr", {}, ...["scope", "count", "time inside, all warps", "mean inside", "longest"].map((text) => make("th", { scope: "col" }, text)));
    const name = (key) => (typeof key === "string" ? key : key < 0 ? (level.kind === "program" ? "launches" : "CTAs") : this.name(key));
    const rows = keys.slice(0, MOST).map((key) => {
      const own = found.get(key);
      const cells = [words.count(own.count), time(own.total), time(own.total / own.count), time(own.longest)];
      return make("tr", {}, make("th", { scope: "row" }, name(key)), ...cells.map((text) => make("td", {}, text)));
    });
    const more = keys.length > MOST ? [make("p", {}, `${keys.length - MOST} more scopes`)] : [];
    return [make("p", {}, `Selected: ${time(to - from)}`), make("table", { class: "statistics" }, make("thead", {}, head), make("tbody", {}, ...rows)), ...more];
  }
}

/** How many CTAs of a launch there are, and of how many. */
export function ctasOf(launches, launch) {
  const own = launches.ctas[launch].length, grid = launches.grid[launch];
  return own < grid ? `${words.count(own)} of ${words.count(grid)} CTAs` : `${words.count(own)} ${own === 1 ? "CTA" : "CTAs"}`;
}

function facts(list) {
  return make("dl", { class: "facts" }, ...list.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))));
}
