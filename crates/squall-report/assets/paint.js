/* Paints points: sets the pixels of thousands of small squares, then draws all of them onto the canvas in one call.
 *
 * A canvas call for each point costs more than its pixels; setting pixels directly keeps 90,000 points within one
 * frame, wherever they are. Only the visible part of the sorted points is visited. It loads no data and
 * changes no view. scatter.js draws axes and shading. */

import { ANSWERED, UNFINISHED, lowerBound } from "./data.js";

/** How the plot lies on the canvas, in device pixels, and how its values map to it. */
export function frameOf(box, pane, ratio) {
  const y = pane.log ? pane.y.map(Math.log10) : pane.y;
  return {
    left: box.left,
    top: box.top,
    width: box.width,
    height: box.height,
    ratio,
    pane,
    xFrom: pane.x[0],
    xScale: box.width / (pane.x[1] - pane.x[0]),
    yFrom: y[0],
    yScale: box.height / (y[1] - y[0]),
    latencies: (points) => (pane.log ? points.latencyLog : points.latencyMs),
  };
}

/** The indices [from, to) of the points whose start is visible, with a margin of four pixels. */
export function inSight(points, frame) {
  const margin = 4 / frame.xScale;
  return [
    lowerBound(points.startS, frame.pane.x[0] - margin),
    lowerBound(points.startS, frame.pane.x[1] + margin),
  ];
}

/** The pixels of a plot's points, reused from one redraw to the next. */
export class Raster {
  constructor() {
    this.canvas = document.createElement("canvas");
  }

  /** Clears it and sets it to the size of the frame. */
  clear(frame) {
    const width = Math.round(frame.width);
    const height = Math.round(frame.height);
    if (this.width === width && this.height === height) {
      this.pixels.fill(0);
      return;
    }
    Object.assign(this, { width, height });
    Object.assign(this.canvas, { width, height });
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  drawOnto(context, frame) {
    this.canvas.getContext("2d").putImageData(this.image, 0, 0);
    context.drawImage(this.canvas, Math.round(frame.left), Math.round(frame.top));
  }
}

/** Paints `layers`, later ones on top: { points, colour, causes }, and their failures in the colour `failure`. `causes` has
 * a colour for each code of a cause; if it is present, answered requests have these colours. */
export function paintLayers(context, frame, raster, layers, failure) {
  raster.clear(frame);
  for (const { points, colour, causes } of layers) {
    const own = shades(context, colour);
    const byCause = causes?.map((cause) => (cause ? shades(context, cause) : own));
    paintAnswered(raster, frame, points, own, byCause);
  }
  raster.drawOnto(context, frame);
  for (const { points, colour } of layers) {
    const [from, to] = inSight(points, frame);
    paintAtLeast(context, frame, points, from, to, colour);
    context.fillStyle = colour;
    paintUnfinished(context, frame, points, from, to, Math.max(pointSize(to - from, frame.ratio), 3 * frame.ratio));
    context.strokeStyle = failure;
    paintFailed(context, frame, points, from, to);
  }
}

/** A colour as pixel values: pale for the warm-up, and full. */
function shades(context, colour) {
  // The canvas returns any opaque colour as #rrggbb.
  context.fillStyle = colour;
  const rgb = Number.parseInt(context.fillStyle.slice(1), 16);
  // Red comes first in memory, and every machine that runs a browser is little-endian.
  const bgr = ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >> 16);
  const withAlpha = (alpha) => ((Math.round(alpha * 255) << 24) | bgr) >>> 0;
  return { pale: withAlpha(0.3), full: withAlpha(1) };
}

/** If there are few points, they are larger: there is room, and each may matter. */
function pointSize(count, ratio) {
  const size = count < 400 ? 5 : count < 5000 ? 4 : count < 20000 ? 3 : 2.5;
  return Math.round(size * ratio);
}

/** One square for each visible answered request. */
function paintAnswered(raster, frame, points, own, byCause) {
  const { pixels, width, height } = raster;
  const { xFrom, xScale, yFrom, yScale } = frame;
  const { startS, mark, cause, warmupCount } = points;
  const latencies = frame.latencies(points);
  const [from, to] = inSight(points, frame);
  const size = pointSize(to - from, frame.ratio);
  const half = size / 2;
  for (let i = from; i < to; i++) {
    if (mark[i] !== ANSWERED) continue;
    const left = Math.round((startS[i] - xFrom) * xScale - half);
    const top = Math.round(height - (latencies[i] - yFrom) * yScale - half);
    const right = Math.min(left + size, width);
    const bottom = Math.min(top + size, height);
    const { pale, full } = byCause ? byCause[cause[i]] : own;
    const colour = i < warmupCount ? pale : full;
    for (let y = Math.max(top, 0); y < bottom; y++) {
      for (let x = Math.max(left, 0); x < right; x++) pixels[y * width + x] = colour;
    }
  }
}

/** A hatched band from each unfinished request upwards: it took at least that long, how much longer is unknown.
 * Bands of neighbours merge, so that requests cut off together do not look like a falling line. */
function paintAtLeast(context, frame, points, from, to, colour) {
  const latencies = frame.latencies(points);
  const width = Math.round(4 * frame.ratio);
  context.beginPath();
  let hasAny = false;
  for (let i = from; i < to; i++) {
    if (points.mark[i] !== UNFINISHED) continue;
    hasAny = true;
    const x = Math.round(frame.left + (points.startS[i] - frame.xFrom) * frame.xScale) - (width >> 1);
    const y = frame.top + frame.height - (latencies[i] - frame.yFrom) * frame.yScale;
    context.rect(x, frame.top, width, Math.max(y - frame.top, 0));
  }
  if (!hasAny) return;
  context.save();
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = Math.max(1, frame.ratio);
  context.beginPath();
  for (let x = frame.left - frame.height; x < frame.left + frame.width; x += 6 * frame.ratio) {
    context.moveTo(x, frame.top + frame.height);
    context.lineTo(x + frame.height, frame.top);
  }
  context.stroke();
  context.restore();
}

/** Open squares at the lower bound. */
function paintUnfinished(context, frame, points, from, to, size) {
  const latencies = frame.latencies(points);
  const line = Math.max(1, Math.round(frame.ratio));
  const half = size >> 1;
  for (let i = from; i < to; i++) {
    if (points.mark[i] !== UNFINISHED) continue;
    const x = Math.round(frame.left + (points.startS[i] - frame.xFrom) * frame.xScale) - half;
    const y = Math.round(frame.top + frame.height - (latencies[i] - frame.yFrom) * frame.yScale) - half;
    context.fillRect(x, y, size, line);
    context.fillRect(x, y + size - line, size, line);
    context.fillRect(x, y, line, size);
    context.fillRect(x + size - line, y, line, size);
  }
}

/** Marks on the time axis where the link dropped packets: a row for each layer. */
export function paintDrops(context, frame, layers) {
  const height = 5 * frame.ratio;
  layers.forEach(({ points, colour }, row) => {
    const bottom = frame.top + frame.height - row * (height + frame.ratio);
    context.fillStyle = colour;
    const until = lowerBound(points.dropsS, frame.pane.x[1]);
    for (let i = lowerBound(points.dropsS, frame.pane.x[0]); i < until; i++) {
      const x = frame.left + (points.dropsS[i] - frame.xFrom) * frame.xScale;
      context.fillRect(Math.round(x), bottom - height, Math.max(1, frame.ratio), height);
    }
  });
}

/** Crosses along the top edge: a failed request has no latency. */
function paintFailed(context, frame, points, from, to) {
  const arm = 3 * frame.ratio;
  const y = frame.top + failureDepth(frame.ratio);
  context.lineWidth = 1.5 * frame.ratio;
  context.beginPath();
  for (let i = from; i < to; i++) {
    if (points.mark[i] <= UNFINISHED) continue;
    const x = frame.left + (points.startS[i] - frame.xFrom) * frame.xScale;
    context.moveTo(x - arm, y - arm);
    context.lineTo(x + arm, y + arm);
    context.moveTo(x - arm, y + arm);
    context.lineTo(x + arm, y - arm);
  }
  context.stroke();
}

/** How far below the plot's top edge the failures are, in device pixels. */
export function failureDepth(ratio) {
  return 6 * ratio;
}
