// One frame of the timeline: everything is drawn anew from the rows that are seen.

import * as words from "./words.js";
import { itemText } from "./levels.js";

export const GUTTER = 128, AXIS = 24, MINIMAP = 40;
const RUNNING = { launch: "CTAs at once", cta: "warps at once" };
const LEAST_LABEL = 14; // pixels: a letter has room
const NARROW = 4, FEW = 64; // pixels: bars that are shorter on average are drawn as pixels, where they are not few

/** view: {profile, level, from, to, scroll, width, height, theme, paints, pixels, strips, search, hover, chosen, range}. */
export function drawFrame(g, view) {
  const { width, height, theme } = view;
  g.fillStyle = theme.paper;
  g.fillRect(0, 0, width, height);
  drawGrid(g, view);
  g.save();
  g.beginPath();
  g.rect(0, AXIS, width, height - AXIS);
  g.clip();
  let labels = 500;
  view.strips.begin(GUTTER, width - GUTTER);
  for (const row of view.level.rows) {
    const y = AXIS + row.y - view.scroll;
    if (y + row.height < AXIS || y > height) continue;
    labels -= drawRow(g, view, row, y, labels);
  }
  view.strips.draw(g);
  drawMarks(g, view);
  drawArcs(g, view);
  drawGutter(g, view);
  g.restore();
  drawRange(g, view);
}

export const toX = (view, time) => GUTTER + ((time - view.from) / (view.to - view.from)) * (view.width - GUTTER);
export const toTime = (view, x) => view.from + ((x - GUTTER) / (view.width - GUTTER)) * (view.to - view.from);

function drawRow(g, view, row, y, labels) {
  const scale = (view.width - GUTTER) / (view.to - view.from);
  const [low, high] = row.seen(view.from, view.to);
  if (high <= low) return 0;
  const colours = view.paints[row.what];
  const size = (Math.min(row.ends[high - 1], view.to) - Math.max(row.starts[low], view.from)) * scale;
  if (high - low > FEW && (high - low) * NARROW > size) {
    view.strips.add(view, row, low, high, y);
    return 0;
  }
  let texts = 0;
  for (let i = low; i < high; i++) {
    const left = Math.max(GUTTER, GUTTER + (row.starts[i] - view.from) * scale);
    const right = Math.min(view.width, GUTTER + (row.ends[i] - view.from) * scale);
    const size = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
    const item = row.items[i];
    const colour = colours[row.paint[i]] || colours[0];
    g.globalAlpha = (row.isAsync ? view.theme.flight : 1) * (isDim(view, row, item) ? 0.18 : 1);
    g.fillStyle = colour.fill;
    g.fillRect(left, y, size, row.height);
    if (size > LEAST_LABEL && row.height >= 9 && texts < labels) {
      texts++;
      if (!isDim(view, row, item)) g.globalAlpha = 1;
      g.fillStyle = row.isAsync ? view.theme.ink : colour.ink;
      g.font = `${row.height >= 14 ? 11 : 9}px system-ui, sans-serif`;
      g.textBaseline = "middle";
      g.fillText(fitted(g, labelOf(view, row, item), narrowOf(view, row, item), size - 6), left + 3, y + row.height / 2 + 0.5);
    }
  }
  g.globalAlpha = 1;
  return texts;
}

function labelOf(view, row, item) {
  const { profile } = view;
  if (row.what === "span") return profile.sites.scope[profile.spans.site[item]];
  if (row.what === "around") return profile.around.names[profile.around.name[item]];
  return row.what === "cta" ? String(profile.ctas.number[item]) : itemText(profile, row, item);
}

/** What a bar says that has no room for its label: the variable first, "x: async wait"; "" where it has no other name. */
function narrowOf(view, row, item) {
  const { sites, spans } = view.profile;
  if (row.what !== "span") return "";
  const narrow = sites.narrow[spans.site[item]];
  return narrow === sites.scope[spans.site[item]] ? "" : narrow;
}

/** A text in the font that is set, so that it stays inside its bar: whole, or the narrow one cut, or its variable alone;
 * "" where three letters of any other have no room. */
function fitted(g, text, narrow, width) {
  if (g.measureText(text).width <= width) return text;
  const variable = narrow.slice(0, narrow.indexOf(": "));
  const short = cut(g, narrow || text, width);
  const saysMore = short.length > variable.length + 3;
  return variable && !saysMore && g.measureText(variable).width <= width ? variable : short;
}

function cut(g, text, width) {
  const whole = g.measureText(text).width;
  if (whole <= width) return text;
  let most = Math.floor((text.length * width) / whole);
  while (most > 2 && g.measureText(text.slice(0, most - 1) + "…").width > width) most--;
  return most < 3 ? "" : text.slice(0, most - 1) + "…";
}

function isDim(view, row, item) {
  return Boolean(view.search.matches) && (row.what === "span" || row.what === "around") && !view.search.isMatch(row, item);
}

/** The bar that is chosen and the one below the pointer have a frame, however narrow they are. */
function drawMarks(g, view) {
  g.strokeStyle = view.theme.mark;
  g.lineWidth = 2;
  for (const { row, i } of [view.hover, view.chosen].filter(Boolean)) {
    const left = Math.max(GUTTER, toX(view, row.starts[i])), right = Math.min(view.width, toX(view, row.ends[i]));
    if (right < left) continue;
    g.strokeRect(left + 1, AXIS + row.y - view.scroll + 1, Math.max(1, right - left - 3), row.height - 2);
  }
}

function drawArcs(g, view) {
  const arcs = view.level.arcs;
  if (!arcs.length) return;
  const inside = arcs.filter((arc) => view.profile.spans.end[arc.wait] > view.from && view.profile.spans.start[arc.flight] < view.to);
  const about = [view.chosen, view.hover].filter((each) => each && each.row.what === "span").map((each) => each.item);
  const isOf = (arc) => about.includes(arc.flight) || about.includes(arc.issue) || about.includes(arc.wait);
  const strong = inside.filter(isOf);
  if (inside.length <= 80) for (const arc of inside) drawArc(g, view, arc, 0.35, 1);
  for (const arc of strong) drawArc(g, view, arc, 1, 1.8);
}

function drawArc(g, view, arc, alpha, size) {
  const { spans } = view.profile;
  const [x0, x1] = [toX(view, spans.start[arc.flight]), toX(view, spans.end[arc.wait])];
  const y0 = AXIS + arc.from.y + arc.from.height - view.scroll, y1 = AXIS + arc.to.y + arc.to.height - view.scroll;
  const sag = Math.min(26, 8 + (x1 - x0) / 12);
  g.globalAlpha = alpha;
  g.strokeStyle = g.fillStyle = view.theme.arc;
  g.lineWidth = size;
  g.beginPath();
  g.moveTo(x0, y0);
  g.bezierCurveTo(x0 + (x1 - x0) * 0.2, y0 + sag, x1 - (x1 - x0) * 0.2, y1 + sag, x1, y1);
  g.stroke();
  g.beginPath();
  g.moveTo(x1, y1 - 1);
  g.lineTo(x1 - 5, y1 + 4);
  g.lineTo(x1 + 1, y1 + 5);
  g.fill();
  g.globalAlpha = 1;
}

function drawGutter(g, view) {
  g.fillStyle = view.theme.panel;
  g.fillRect(0, AXIS, GUTTER - 1, view.height - AXIS);
  g.font = "11px system-ui, sans-serif";
  g.textBaseline = "middle";
  let last = null, free = -Infinity;
  for (const row of view.level.rows) {
    const y = AXIS + row.y - view.scroll;
    const text = row.label;
    if (text && text !== last && y + row.height > AXIS && y < view.height && y >= free) {
      g.fillStyle = view.theme.ink;
      const most = Math.floor((GUTTER - 16) / 5.9);
      g.fillText(text.length > most ? text.slice(0, most - 1) + "…" : text, 10, y + Math.max(row.height, 6) / 2 + 0.5);
      free = y + 12;
      last = text;
    }
  }
}

function drawGrid(g, view) {
  const { width, height, profile } = view;
  const span = view.to - view.from;
  const step = niceStep((span * 96) / Math.max(96, width - GUTTER));
  g.fillStyle = view.theme.panel;
  g.fillRect(0, 0, width, AXIS);
  g.font = "11px system-ui, sans-serif";
  g.textBaseline = "middle";
  for (let k = Math.ceil(view.from / step); k * step <= view.to; k++) {
    const x = Math.round(toX(view, k * step)) + 0.5;
    if (x < GUTTER) continue;
    g.fillStyle = view.theme.line;
    g.fillRect(x, AXIS, 1, height - AXIS);
    g.fillStyle = view.theme.dim;
    const text = words.moment(k * step, step, profile.unit, Math.max(Math.abs(view.from), Math.abs(view.to)));
    if (x + g.measureText(text).width < width) g.fillText(text, x + 3, AXIS / 2);
  }
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
}

function drawRange(g, view) {
  if (!view.range) return;
  const [left, right] = view.range.map((time) => Math.max(GUTTER, Math.min(view.width, toX(view, time))));
  g.fillStyle = view.theme.range;
  g.globalAlpha = 0.16;
  g.fillRect(Math.min(left, right), AXIS, Math.abs(right - left), view.height - AXIS);
  g.globalAlpha = 1;
  g.fillRect(left - 1, 0, 2, view.height);
  g.fillRect(right - 1, 0, 2, view.height);
  const text = words.duration(Math.abs(view.range[1] - view.range[0]), view.profile.unit);
  g.font = "600 11px system-ui, sans-serif";
  const x = (left + right) / 2 - g.measureText(text).width / 2;
  g.fillStyle = view.theme.paper;
  g.fillRect(x - 4, 4, g.measureText(text).width + 8, 16);
  g.fillStyle = view.theme.range;
  g.fillText(text, x, AXIS / 2);
}

/** All of a level in one strip, and which part of it is seen. */
export function drawMinimap(g, view) {
  const { width, level, theme: colours } = view;
  const size = width - GUTTER;
  g.fillStyle = colours.panel;
  g.fillRect(0, 0, width, MINIMAP);
  g.fillStyle = colours.dim;
  g.globalAlpha = 0.5;
  g.fill(densityPath(level, size));
  g.globalAlpha = 1;
  const at = (time) => GUTTER + ((time - level.from) / (level.to - level.from)) * size;
  const left = Math.max(GUTTER, at(view.from)), right = Math.min(width, at(view.to));
  g.fillStyle = colours.paper;
  g.globalAlpha = 0.6;
  g.fillRect(GUTTER, 0, left - GUTTER, MINIMAP);
  g.fillRect(right, 0, width - right, MINIMAP);
  g.globalAlpha = 1;
  g.strokeStyle = colours.range;
  g.lineWidth = 1.5;
  g.strokeRect(left + 0.5, 1, Math.max(2, right - left - 1), MINIMAP - 2);
  g.fillStyle = colours.dim;
  g.font = "11px system-ui, sans-serif";
  g.textBaseline = "middle";
  g.fillText(RUNNING[level.kind] || "bars at once", 10, MINIMAP / 2);
}

/** Made once for a level and a width. */
function densityPath(level, size) {
  if (level.densityPath?.size === size) return level.densityPath.path;
  level.density ??= densityOf(level, 400);
  const most = level.density.reduce((a, b) => Math.max(a, b), 1e-9);
  const path = new Path2D();
  path.moveTo(GUTTER, MINIMAP - 3);
  level.density.forEach((value, i) => {
    const y = MINIMAP - 3 - (value / most) * (MINIMAP - 10);
    path.lineTo(GUTTER + (i / 400) * size, y);
    path.lineTo(GUTTER + ((i + 1) / 400) * size, y);
  });
  path.lineTo(GUTTER + size, MINIMAP - 3);
  level.densityPath = { size, path };
  return path;
}

function densityOf(level, count) {
  const found = new Array(count).fill(0);
  const step = (level.to - level.from) / count;
  for (const row of level.rows) {
    if (row.isAsync || ((row.what === "span" || row.what === "around") && row.depth > 0)) continue;
    for (let i = 0; i < row.count; i++) {
      const low = (row.starts[i] - level.from) / step, high = (row.ends[i] - level.from) / step;
      for (let b = Math.max(0, Math.floor(low)); b < Math.min(count, Math.ceil(high)); b++)
        found[b] += Math.min(high, b + 1) - Math.max(low, b);
    }
  }
  return found;
}
