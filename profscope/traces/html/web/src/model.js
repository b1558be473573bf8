// The profile as typed arrays: what the file holds packed, unpacked once.

const ARRAYS = { u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array, f8: Float64Array };

/** The columns by name: see packed.py for how they are written. */
async function readColumns(index, text) {
  const binary = atob(text);
  const packed = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) packed[i] = binary.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const columns = {};
  let at = 0;
  for (const [name, kind, count] of index) {
    const size = Number(kind[1]);
    const plain = new Uint8Array(count * size);
    for (let plane = 0; plane < size; plane++) {
      const from = at + plane * count;
      for (let i = 0; i < count; i++) plain[i * size + plane] = bytes[from + i];
    }
    columns[name] = new ARRAYS[kind](plain.buffer);
    at += count * size;
  }
  return columns;
}

/** What was around the kernels: scopes and calls of the host, and all that ran on GPUs, by track. */
function aroundOf(facts, c) {
  const { names, kinds, tracks, left } = facts.around;
  const count = tracks.reduce((sum, track) => sum + track.count, 0);
  const begin = c.around_begin || [], duration = c.around_duration || [];
  return { count, names, kinds, left, name: c.around_name, kind: c.around_kind, launch: c.around_launch, begin, duration, tracks };
}

/** All that views draw. Times are in the profile's unit, since the launch began. */
export async function readProfile(facts, text) {
  const c = await readColumns(facts.columns, text);
  const count = c.cta_number.length;
  const ctas = {
    count, launch: c.cta_launch, sm: c.cta_sm, slot: c.cta_slot, start: c.cta_start,
    duration: c.cta_duration, number: c.cta_number,
    first: new Int32Array(count).fill(-1), spans: new Uint32Array(count), run: new Int32Array(count).fill(-1), runs: new Uint32Array(count),
  };
  const n = c.site.length;
  const spans = {
    count: n, site: c.site, depth: c.depth, start: new Float64Array(n), end: new Float64Array(n),
    iteration: new Int32Array(n), warp: new Int32Array(n), issue: new Int32Array(n).fill(-1), wait: new Int32Array(n).fill(-1),
  };
  const isFlight = facts.sites.kind.map((kind) => kind === "async");
  let row = 0, run = 0, flight = 0, iteration = 0, cta = 0;
  for (let i = 0; i < c.chosen.length; i++) {
    cta += c.chosen[i];
    ctas.first[cta] = row;
    ctas.spans[cta] = c.cta_spans[i];
    ctas.run[cta] = run;
    const end = row + c.cta_spans[i];
    while (row < end) {
      let time = 0;
      const stop = Math.min(end, row + c.warp_spans[run]);
      for (; row < stop; row++) {
        time += c.begin[row];
        iteration += c.iteration[row];
        spans.start[row] = time;
        spans.end[row] = time + c.duration[row];
        spans.iteration[row] = iteration;
        spans.warp[row] = c.warp[run];
        if (isFlight[c.site[row]]) {
          if (c.issue[flight]) spans.issue[row] = row - c.issue[flight];
          if (c.wait[flight]) spans.wait[row] = row + c.wait[flight];
          flight++;
        }
      }
      run++;
    }
    ctas.runs[cta] = run - ctas.run[cta];
  }
  const launches = { ...facts.launches, count: facts.launches.number.length, ctas: facts.launches.number.map(() => []) };
  for (let i = 0; i < count; i++) launches.ctas[ctas.launch[i]].push(i);
  return { around: aroundOf(facts, c), unit: facts.unit, emulated: facts.emulated, facts, sites: facts.sites, isFlight, ctas, spans, launches };
}
