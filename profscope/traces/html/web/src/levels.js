// What the timeline can look at: all launches, the SMs of a launch, the warps of an SM, those of a CTA.

import { Row } from "./rows.js";
import * as words from "./words.js";

const THIN = 9, BAR = 16, GAP = 8;

/** Rows of what was around the kernels: the host's threads first, then the streams of GPUs. */
function aroundRows({ around }) {
  const rows = [];
  let first = 0;
  for (const track of around.tracks) {
    const items = Array.from({ length: track.count }, (_, i) => first + i);
    first += track.count;
    const depths = nested(items, (i) => around.begin[i], (i) => around.begin[i] + around.duration[i]);
    depths.forEach((own, depth) => {
      const about = { label: depth ? "" : `${track.process} ${track.name}`, group: `around ${track.process} ${track.name}`, height: BAR, what: "around", depth };
      rows.push(rowOf(about, own, (i) => around.begin[i], (i) => around.begin[i] + Math.max(1, around.duration[i]), (i) => around.kind[i]));
    });
  }
  return rows;
}

/** Bars in order of start that lie in each other, by how deep they lie. */
function nested(items, start, end) {
  const depths = [];
  const open = [];
  for (const item of items) {
    while (open.length && end(open[open.length - 1]) <= start(item)) open.pop();
    (depths[open.length] ??= []).push(item);
    open.push(item);
  }
  return depths;
}

/** A level: {kind, title, from, to, rows, arcs, parent}. Rows know their place: y, height, label, group. */
export function programLevel(profile) {
  const { launches } = profile;
  const keys = new Map();
  for (let i = 0; i < launches.count; i++) {
    const key = `${launches.rank[i]} ${launches.device[i]} ${launches.name[i]}`;
    if (!keys.has(key)) keys.set(key, []);
    keys.get(key).push(i);
  }
  const rows = aroundRows(profile);
  for (const own of keys.values()) {
    own.sort((a, b) => launches.start[a] - launches.start[b]);
    const name = [...whose(launches, own[0]), launches.name[own[0]]].join(" ");
    for (const lane of lanes(own, (i) => launches.start[i], (i) => launches.start[i] + launches.duration[i])) {
      rows.push(rowOf({ label: name, group: name, height: BAR + 6, what: "launch" }, lane,
        (i) => launches.start[i], (i) => launches.start[i] + Math.max(1, launches.duration[i]), (i) => Math.max(0, launches.kernel[i])));
    }
  }
  return placed({ kind: "program", title: profile.around.count ? "Program" : "All launches", id: "program" }, rows);
}

/** On which rank and GPU a launch ran, where there are several. */
function whose(launches, launch) {
  const several = (values) => values.some((value) => value !== values[0]);
  return [["rank", launches.rank], ["GPU", launches.device]].filter(([, values]) => several(values)).map(([word, values]) => `${word} ${values[launch]}`);
}

export function launchLevel(profile, launch) {
  const { ctas, launches } = profile;
  const own = launches.ctas[launch];
  const places = new Map();
  for (const cta of own) {
    const key = ctas.sm[cta] * 4096 + ctas.slot[cta];
    if (!places.has(key)) places.set(key, []);
    places.get(key).push(cta);
  }
  const speed = relative(own.map((cta) => ctas.duration[cta]));
  const height = places.size > 200 ? 6 : places.size > 60 ? THIN : BAR;
  const rows = [...places.keys()].sort((a, b) => a - b).map((key) => {
    const list = places.get(key).sort((a, b) => ctas.start[a] - ctas.start[b]);
    const sm = ctas.sm[list[0]];
    return rowOf({ label: sm < 0 ? "CTAs" : `SM ${sm}`, group: sm, height, what: "cta", sm }, list,
      (i) => ctas.start[i], (i) => ctas.start[i] + ctas.duration[i], (i) => speed(ctas.duration[i]));
  });
  const title = [`Launch ${launches.number[launch]} of ${launches.name[launch]}`, ...whose(launches, launch)].join(", ");
  return placed({ kind: "launch", title, id: `launch ${launch}`, launch }, rows);
}

export function smLevel(profile, launch, sm) {
  const { ctas, launches } = profile;
  const own = launches.ctas[launch].filter((cta) => ctas.sm[cta] === sm);
  const rows = [];
  const slots = [...new Set(own.map((cta) => ctas.slot[cta]))].sort((a, b) => a - b);
  const speed = relative(launches.ctas[launch].map((cta) => ctas.duration[cta]));
  for (const slot of slots) {
    const list = own.filter((cta) => ctas.slot[cta] === slot).sort((a, b) => ctas.start[a] - ctas.start[b]);
    rows.push(rowOf({ label: `slot ${slot}`, group: `slot ${slot}`, height: BAR, what: "cta", sm }, list,
      (i) => ctas.start[i], (i) => ctas.start[i] + ctas.duration[i], (i) => speed(ctas.duration[i])));
    rows.push(...spanRows(profile, list, { height: THIN, label: (warp) => `warp ${warp}`, group: `slot ${slot}`, flights: false }));
  }
  return placed({ kind: "sm", title: sm < 0 ? "CTAs" : `SM ${sm}`, id: `sm ${launch} ${sm}`, launch, sm }, rows);
}

export function ctaLevel(profile, cta) {
  const { ctas } = profile;
  const names = partitions(profile, cta);
  const rows = spanRows(profile, [cta], { height: BAR, label: (warp) => names(warp), group: "", flights: true });
  const number = ctas.number[cta];
  const level = placed({ kind: "cta", title: number < 0 ? "Spans" : `CTA ${number}`, id: `cta ${cta}`, launch: ctas.launch[cta], sm: ctas.sm[cta], cta }, rows);
  level.from = ctas.start[cta];
  level.to = ctas.start[cta] + Math.max(1, ctas.duration[cta]);
  level.arcs = arcsOf(profile, cta, rows);
  return level;
}

/** Rows of spans: by slot's CTAs, warp and depth; behind each warp what it has in flight. */
function spanRows(profile, list, { height, label, group, flights }) {
  const { ctas, spans, isFlight } = profile;
  const byKey = new Map();
  for (const cta of list) {
    if (ctas.first[cta] < 0) continue;
    for (let i = ctas.first[cta]; i < ctas.first[cta] + ctas.spans[cta]; i++) {
      if (isFlight[spans.site[i]] && !flights) continue;
      const key = isFlight[spans.site[i]] ? spans.warp[i] * 64 + 63 : spans.warp[i] * 64 + Math.min(62, spans.depth[i]);
      let own = byKey.get(key);
      if (!own) byKey.set(key, (own = []));
      own.push(i);
    }
  }
  const rows = [];
  for (const key of [...byKey.keys()].sort((a, b) => a - b)) {
    const own = byKey.get(key);
    const warp = Math.floor(key / 64), isAsync = key % 64 === 63;
    const first = !rows.length || rows[rows.length - 1].warp !== warp;
    const about = { label: first ? label(warp) : isAsync ? "in flight" : "", group: `${group} ${warp}`, height: isAsync ? THIN : height, what: "span", warp, isAsync, depth: key % 64 };
    const split = isAsync ? lanes(own.sort((a, b) => spans.start[a] - spans.start[b]), (i) => spans.start[i], (i) => spans.end[i]) : [own];
    split.forEach((lane, number) => rows.push(rowOf({ ...about, label: number ? "" : about.label }, lane, (i) => spans.start[i], (i) => spans.end[i], (i) => spans.site[i])));
  }
  return rows;
}

/** What warps of a CTA are called: in a warp-specialised kernel by the partition that they run. */
function partitions(profile, cta) {
  const { ctas, spans, sites } = profile;
  const roots = new Map();
  for (let i = ctas.first[cta]; i >= 0 && i < ctas.first[cta] + ctas.spans[cta]; i++)
    if (spans.depth[i] === 0 && !roots.has(spans.warp[i])) roots.set(spans.warp[i], spans.site[i]);
  const kinds = [...new Set(roots.values())];
  if (kinds.length < 2) return (warp) => `warp ${warp}`;
  const short = (site) => (sites.scope[site] === sites.kernel[site] ? "default" : sites.scope[site].replace(`${sites.kernel[site]} `, ""));
  return (warp) => `${short(roots.get(warp))}, warp ${warp}`;
}

/** From the issue of each asynchronous work to the wait that ended it, with the rows of both. */
function arcsOf(profile, cta, rows) {
  const { ctas, spans, isFlight } = profile;
  const places = new Map(rows.filter((row) => !row.isAsync).map((row) => [row.warp * 64 + row.depth, row]));
  const rowOfSpan = (i) => places.get(spans.warp[i] * 64 + Math.min(62, spans.depth[i]));
  const arcs = [];
  for (let i = ctas.first[cta]; i >= 0 && i < ctas.first[cta] + ctas.spans[cta]; i++) {
    if (!isFlight[spans.site[i]] || spans.issue[i] < 0 || spans.wait[i] < 0) continue;
    arcs.push({ flight: i, issue: spans.issue[i], wait: spans.wait[i], from: rowOfSpan(spans.issue[i]), to: rowOfSpan(spans.wait[i]) });
  }
  return arcs.filter((arc) => arc.from && arc.to);
}

/** Bars spread over as few lanes as keep them from overlapping. */
function lanes(items, start, end) {
  const found = [];
  for (const item of items) {
    const lane = found.find((each) => end(each[each.length - 1]) <= start(item));
    if (lane) lane.push(item);
    else found.push([item]);
  }
  return found;
}

function rowOf(about, items, start, end, paint) {
  const n = items.length;
  const [starts, ends, paints] = [new Float64Array(n), new Float64Array(n), new Uint16Array(n)];
  for (let k = 0; k < n; k++) {
    starts[k] = start(items[k]);
    ends[k] = end(items[k]);
    paints[k] = paint(items[k]);
  }
  return new Row(about, Int32Array.from(items), starts, ends, paints);
}

function placed(about, rows) {
  let y = 0, from = Infinity, to = -Infinity, group = null;
  for (const row of rows) {
    const size = row.what === "cta" && row.height < BAR ? 3 : GAP;
    if (group !== null && row.group !== group) y += size;
    group = row.group;
    row.y = y;
    y += row.height + 1;
    if (!row.count) continue;
    from = Math.min(from, row.starts[0]);
    to = Math.max(to, row.ends[row.count - 1]);
  }
  if (!(to > from)) [from, to] = [0, 1];
  return { arcs: [], ...about, rows, from, to, height: y };
}

/** A CTA's duration beside the median, as one of 9 steps; 4 is alike. */
function relative(durations) {
  const median = [...durations].sort((a, b) => a - b)[durations.length >> 1] || 1;
  return (value) => Math.max(0, Math.min(8, Math.round(4 + 12 * (value / median - 1))));
}

/** What an item of a row is, in a few words. */
export function itemText(profile, row, item) {
  const { around, ctas, spans, sites, launches, unit } = profile;
  if (row.what === "launch") return `${[`launch ${launches.number[item]}`, ...whose(launches, item)].join(", ")}, ${words.duration(launches.duration[item], unit)}`;
  if (row.what === "around") return `${around.names[around.name[item]]}, ${words.duration(around.duration[item], unit)}`;
  if (row.what === "cta") return `CTA ${ctas.number[item]}, ${words.duration(ctas.duration[item], unit)}`;
  const site = spans.site[item];
  return `${words.placed(sites, site)}, ${words.duration(spans.end[item] - spans.start[item], unit)}`;
}
