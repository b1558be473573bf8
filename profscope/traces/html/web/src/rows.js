// Rows of bars that do not overlap, and their levels of detail.

/** The first of `values`, ascending, that is greater than `value`. */
export function after(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

const FEW = 256;
const EMPTY = 0xffff;
const LEAST = 1e-3; // of a bucket: bars without any length are seen, too

/** A row. items: what each bar is, in order of time. paint: by bar, a number for its colour. */
export class Row {
  constructor(about, items, starts, ends, paint) {
    Object.assign(this, about);
    this.items = items;
    this.starts = starts;
    this.ends = ends;
    this.paint = paint;
    this.levels = null;
  }

  get count() {
    return this.items.length;
  }

  /** The bars that are seen between two moments: [first, behind the last]. */
  seen(from, to) {
    return [after(this.ends, from), after(this.starts, to)];
  }

  /** The bar at a moment, -1 where there is none; one up to `slack` away will do. */
  at(time, slack) {
    const i = after(this.ends, time);
    if (i < this.count && this.starts[i] <= time) return i;
    if (i < this.count && this.starts[i] - time <= slack) return i;
    return i > 0 && time - this.ends[i - 1] <= slack ? i - 1 : -1;
  }

  /** The level of detail whose buckets are at least so long; null where bars are few. */
  detail(least) {
    if (this.count < FEW) return null;
    this.levels ??= levelsOf(this);
    return this.levels.find((level) => level.step >= least) || this.levels[this.levels.length - 1];
  }
}

/** A stretch of time in equal parts. By part: the paint that takes most of it, EMPTY where most is empty; how
 * much time that paint takes, and how much all do, in parts. */
export class Bins {
  constructor(size, from = 0, step = 1) {
    Object.assign(this, { size, from, step, paint: new Uint16Array(size).fill(EMPTY), weight: new Float32Array(size), cover: new Float32Array(size) });
  }

  /** Empty again, for another stretch. */
  of(from, step) {
    this.paint.fill(EMPTY);
    this.weight.fill(0);
    this.cover.fill(0);
    return Object.assign(this, { from, step });
  }
}

/** The bars from `first` to before `last`, put into bins. */
export function binned(row, first, last, bins) {
  const { size, from, step, paint, weight, cover } = bins;
  for (let i = first; i < last; i++) {
    const low = Math.min((row.starts[i] - from) / step, size - LEAST), high = Math.max((row.ends[i] - from) / step, low + LEAST);
    for (let b = Math.max(0, Math.floor(low)); b < Math.min(size, Math.ceil(high)); b++) {
      const part = Math.min(high, b + 1) - Math.max(low, b);
      cover[b] += part;
      if (paint[b] === row.paint[i]) weight[b] += part;
      else if (part > weight[b]) {
        paint[b] = row.paint[i];
        weight[b] = part;
      }
    }
  }
  return bins;
}

/** From the finest to the coarsest: by bucket the paint that takes most of it, EMPTY where most is empty. */
function levelsOf(row) {
  const from = row.starts[0];
  const length = Math.max(1, row.ends[row.count - 1] - from);
  let size = 1 << Math.max(4, Math.ceil(Math.log2(row.count)) - 1);
  let step = length / size;
  let { paint, weight, cover } = binned(row, 0, row.count, new Bins(size, from, step));
  const levels = [];
  for (;;) {
    levels.push({ from, step, size, paint, cover });
    if (size <= 16) return levels;
    size >>= 1;
    step *= 2;
    const [p, w, c] = [new Uint16Array(size), new Float32Array(size), new Float32Array(size)];
    for (let b = 0; b < size; b++) {
      const l = 2 * b, r = l + 1;
      c[b] = (cover[l] + cover[r]) / 2;
      if (paint[l] === paint[r]) {
        p[b] = paint[l];
        w[b] = (weight[l] + weight[r]) / 2;
      } else {
        const first = weight[l] >= weight[r] ? l : r;
        p[b] = paint[first];
        w[b] = weight[first] / 2;
      }
    }
    [paint, weight, cover] = [p, w, c];
  }
}
