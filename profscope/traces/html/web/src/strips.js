// Rows of narrow bars: a strip of pixels each, which costs the same however many bars it stands for.

import { Bins, binned } from "./rows.js";

const FAINT = [[0.5, 1], [0.2, 0.8], [0.08, 0.6], [0, 0.4]]; // from which part of a pixel's time on, and how strong then
const STEPS = 100;
const STRENGTH = Float32Array.from({ length: STEPS + 1 }, (_, i) => FAINT.find(([least]) => i / STEPS >= least)[1]);
const DIM = 0.18;
const MOST = 20000; // bars that are binned anew for a row of a frame

/** Fills as the pixels of a canvas have them: red, green and blue in the low bytes. */
export function pixelsOf(paints) {
  const canvas = document.createElement("canvas");
  canvas.width = paints.length;
  canvas.height = 1;
  const g = canvas.getContext("2d", { willReadFrequently: true });
  paints.forEach(({ fill }, i) => {
    g.fillStyle = fill;
    g.fillRect(i, 0, 1, 1);
  });
  const { data } = g.getImageData(0, 0, Math.max(1, paints.length), 1);
  return Uint32Array.from(paints, (_, i) => data[4 * i] | (data[4 * i + 1] << 8) | (data[4 * i + 2] << 16));
}

/** The strips of a frame lie in one picture, a line each, which goes to the canvas once: that is what a frame costs. */
export class Strips {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.places = [];
  }

  /** Before the rows of a frame. left, size: where they lie in the canvas, in its pixels. */
  begin(left, size) {
    Object.assign(this, { left, size, width: Math.max(1, Math.round(size * (window.devicePixelRatio || 1))) });
    this.places.length = 0;
  }

  /** A row's bars from `low` to before `high`, which are narrow; y: where in the canvas, in its pixels. Bars that are
   * wider than a pixel, one with another, are binned anew, so that they stand where they are; of shorter ones a level
   * of detail is taken, which does not flicker when it moves. Where bars come in bursts even the finest is too coarse. */
  add(view, row, low, high, y) {
    const { width } = this;
    const pixel = (view.to - view.from) / width;
    const detail = high - low > width ? row.detail(pixel) : null;
    if (detail && (detail.step <= 2 * pixel || high - low > MOST)) return this.put(view, row, detail, y);
    if (this.bins?.size !== width) this.bins = new Bins(width);
    this.put(view, row, binned(row, low, high, this.bins.of(view.from, pixel)), y);
  }

  /** What covers little of a pixel's time is seen, too, and faint. */
  put(view, row, detail, y) {
    const { width } = this;
    this.makeRoom(this.places.length + 1);
    const line = width * this.places.length;
    this.places.push({ y, height: row.height });
    const { pixels } = this;
    const { paint, cover, size } = detail;
    const colours = view.pixels[row.what];
    const matches = row.what === "span" ? view.search.matches : null;
    const strong = 255 * (row.isAsync ? view.theme.flight : 1);
    const step = (view.to - view.from) / width / detail.step;
    let bucket = (view.from - detail.from) / detail.step + step / 2;
    for (let x = line; x < line + width; x++, bucket += step) {
      const b = Math.floor(bucket);
      const share = b < 0 || b >= size ? 0 : cover[b];
      if (share === 0) {
        pixels[x] = 0;
        continue;
      }
      const alpha = strong * STRENGTH[Math.min(STEPS, Math.trunc(share * STEPS))] * (matches && !matches[paint[b]] ? DIM : 1);
      pixels[x] = (colours[paint[b]] ?? colours[0]) | (Math.round(alpha) << 24);
    }
  }

  /** Lines for as many strips; what was drawn of this frame stays. */
  makeRoom(lines) {
    const { canvas, width } = this;
    if (this.image && canvas.width === width && canvas.height >= lines) return;
    const before = this.image && canvas.width === width ? this.pixels : null;
    canvas.width = width;
    canvas.height = Math.max(32, 2 * lines);
    this.image = new ImageData(width, canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    if (before) this.pixels.set(before);
  }

  /** All of them, where they belong. */
  draw(g) {
    const { canvas, image, places, left, size, width } = this;
    if (!places.length) return;
    canvas.getContext("2d").putImageData(image, 0, 0, 0, 0, width, places.length);
    g.imageSmoothingEnabled = false;
    places.forEach(({ y, height }, line) => g.drawImage(canvas, 0, line, width, 1, left, y, size, height));
  }
}
