/* The data of the page: the manifest, the words of its language, and each trial's points, unpacked on first use.
 *
 * It draws nothing and accesses only the elements that hold data. payload.rs writes and describes the format;
 * paint.js and hover.js use the points. */

/** The manifest: the words for marks and causes, the names of variants, and the trials of each condition. */
export function readManifest() {
  return JSON.parse(document.getElementById("manifest").textContent);
}

let pageWords = null;

/** A text of the scripts in the language of the page. Each slot in braces is replaced by the value of that name. The texts
 * in the scripts are English; a page in another language has their translations from src/lang/script.rs. */
export function say(phrase, values = {}) {
  pageWords ??= JSON.parse(document.getElementById("words")?.textContent ?? "{}");
  return (pageWords[phrase] ?? phrase).replace(/\{[@=#]?(\w+)\}/g, (_, name) => values[name]);
}

/** Codes of marks, which index the manifest's words. Every code above these two is a failure. */
export const ANSWERED = 0;
export const UNFINISHED = 1;

const unpacked = new Map();

/** A promise of the points of `trial`: columns of equal length, sorted by start. */
export function pointsOf(trial) {
  if (!unpacked.has(trial.element)) unpacked.set(trial.element, unpack(trial));
  return unpacked.get(trial.element);
}

async function unpack(trial) {
  const text = atob(document.getElementById(trial.element).textContent);
  const packed = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const n = trial.count;
  const bytes = new DataView(buffer);
  const u32 = (column, row) => bytes.getUint32((column * n + row) * 4, true);
  const drops = new DataView(buffer, 14 * n);
  const points = {
    request: new Float64Array(n),
    startS: new Float64Array(n),
    latencyMs: new Float64Array(n),
    latencyLog: new Float64Array(n),
    mark: new Uint8Array(buffer, 12 * n, n),
    // 0: unknown; otherwise one more than the index among the manifest's causes.
    cause: new Uint8Array(buffer, 13 * n, n),
    warmupCount: trial.warmup_count,
    // When the link dropped packets.
    dropsS: new Float64Array(trial.drop_count),
  };
  let request = 0;
  let startUs = 0;
  for (let i = 0; i < n; i++) {
    points.request[i] = request = (request + u32(0, i)) % 2 ** 32;
    points.startS[i] = (startUs += u32(1, i)) / 1e6;
    points.latencyMs[i] = u32(2, i) / 1e3;
    // Computed once, so that a logarithmic axis redraws as fast as a linear one.
    points.latencyLog[i] = Math.log10(Math.max(points.latencyMs[i], 1e-3));
  }
  let dropUs = 0;
  for (let i = 0; i < trial.drop_count; i++) points.dropsS[i] = (dropUs += drops.getUint32(4 * i, true)) / 1e6;
  return points;
}

/** The first index of `sorted` whose value is not below `value`. */
export function lowerBound(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
