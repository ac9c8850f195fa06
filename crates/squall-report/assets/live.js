/* More data than the page holds, from the `squall view` that serves it: every request in the visible part of a plot.
 *
 * A page from a file has no such server, so its plots keep the points that are packed into it (data.js). Answers have the
 * form of data.js, so plots need not know where their points come from. docs/VIEW.md describes the server's answers. */

/** A cell of the server's raster, in device pixels: smaller than any point that is drawn. */
const CELL_PIXELS = 2;

/** The largest latency in microseconds that the server accepts. */
const LATENCY_AT_MOST_US = 2 ** 32 - 1;

/** The server's answer to a question about `trial`. `source` is the path of its run. */
export async function ask(source, trial, question) {
  const response = await fetch(`${source}trials/${trial.trial}/${question}`);
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

/** The visible time of `pane`, as a query. */
export function visibleTime(pane) {
  const [from, to] = pane.x;
  return `from_us=${Math.max(0, Math.floor(from * 1e6))}&to_us=${Math.max(0, Math.ceil(to * 1e6))}`;
}

/** The visible part of `pane` on a plot of this size in CSS pixels, as a query. */
export function visiblePart(pane, width, height) {
  const latency = (ms, round) => Math.min(Math.max(0, round(ms * 1e3)), LATENCY_AT_MOST_US);
  const cells = (pixels, most) => Math.min(Math.max(1, Math.ceil((pixels * devicePixelRatio) / CELL_PIXELS)), most);
  const [low, high] = [latency(pane.y[0], Math.floor), latency(pane.y[1], Math.ceil)];
  return (
    `${visibleTime(pane)}&low_us=${low}&high_us=${high}` +
    `&columns=${cells(width, 4096)}&rows=${cells(height, 1024)}&scale=${pane.log ? "log" : "linear"}`
  );
}

/** A promise of the points of `trial` in a visible part. */
export async function visiblePoints(source, trial, part) {
  const answer = await ask(source, trial, `points?${part}`);
  const latencyMs = Float64Array.from(answer.latency_us, (us) => us / 1e3);
  return {
    request: answer.request,
    startS: Float64Array.from(answer.start_us, (us) => us / 1e6),
    latencyMs,
    latencyLog: latencyMs.map((ms) => Math.log10(Math.max(ms, 1e-3))),
    mark: answer.mark,
    cause: answer.cause,
    count: answer.count,
    warmupCount: answer.warmup_count,
    dropsS: Float64Array.from(answer.dropped_us, (us) => us / 1e6),
  };
}
