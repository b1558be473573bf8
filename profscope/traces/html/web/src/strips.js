// Rows at a level of detail: a strip of pixels each, which costs the same however many bars it stands for.

const FAINT = [[0.5, 1], [0.2, 0.8], [0.08, 0.6], [0, 0.4]]; // from which part of a pixel's time on, and how strong then
const DIM = 0.18;

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

export class Strips {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.canvas.height = 1;
  }

  /** What covers little of a pixel's time is seen, too, and faint. left, size: where in the canvas, in its pixels. */
  draw(g, view, row, detail, { left, size, y }) {
    const { canvas } = this;
    const width = Math.max(1, Math.round(size * (window.devicePixelRatio || 1)));
    if (canvas.width !== width || !this.image) {
      canvas.width = width;
      this.image = new ImageData(width, 1);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const colours = view.pixels[row.what];
    const { matches } = view.search;
    const strong = row.isAsync ? 0.55 : 1;
    const step = (view.to - view.from) / width / detail.step;
    let bucket = (view.from - detail.from) / detail.step + step / 2;
    for (let x = 0; x < width; x++, bucket += step) {
      const b = Math.floor(bucket);
      const cover = b < 0 || b >= detail.size ? 0 : detail.cover[b];
      if (!cover) {
        this.pixels[x] = 0;
        continue;
      }
      const paint = detail.paint[b];
      const faint = FAINT.find(([least]) => cover >= least)[1] * strong * (matches && row.what === "span" && !matches[paint] ? DIM : 1);
      this.pixels[x] = (colours[paint] ?? colours[0]) | (Math.round(255 * faint) << 24);
    }
    canvas.getContext("2d").putImageData(this.image, 0, 0);
    g.imageSmoothingEnabled = false;
    g.drawImage(canvas, left, y, size, row.height);
  }
}
