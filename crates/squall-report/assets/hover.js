/* Finds the point under the pointer and describes it.
 *
 * It searches only the starts near the pointer, by binary search. It changes no view and paints nothing on the
 * canvas: ring and note are separate elements, whose words are all set as text. paint.js draws the points. */

import { ANSWERED, UNFINISHED, lowerBound, say } from "./data.js";
import { failureDepth } from "./paint.js";

/** How close the pointer must be, in CSS pixels. */
const REACH = 14;

/** The nearest point of `layers` to (x, y), device pixels on the canvas, or null. */
export function nearest(layers, frame, x, y) {
  const reach = REACH * frame.ratio;
  let best = null;
  let bestDistance = reach * reach;
  for (const layer of layers) {
    const { points } = layer;
    const latencies = frame.latencies(points);
    const at = frame.xFrom + (x - frame.left) / frame.xScale;
    const to = lowerBound(points.startS, at + reach / frame.xScale);
    for (let i = lowerBound(points.startS, at - reach / frame.xScale); i < to; i++) {
      const pointX = frame.left + (points.startS[i] - frame.xFrom) * frame.xScale;
      const pointY =
        points.mark[i] > UNFINISHED
          ? frame.top + failureDepth(frame.ratio)
          : frame.top + frame.height - (latencies[i] - frame.yFrom) * frame.yScale;
      // Where points crowd, prefer the unusual one.
      const weight = points.mark[i] === ANSWERED ? 1 : 0.25;
      const distance = ((pointX - x) ** 2 + (pointY - y) ** 2) * weight;
      if (distance < bestDistance) {
        bestDistance = distance;
        best = { layer, index: i, x: pointX, y: pointY };
      }
    }
  }
  return best;
}

/** A note beside the hovered point, in `over`, the element that covers the plot. */
export class Note {
  constructor(over, marks, causes) {
    this.over = over;
    this.marks = marks;
    this.causes = causes;
    this.ring = over.appendChild(document.createElement("div"));
    this.ring.className = "ring";
    this.text = over.appendChild(document.createElement("div"));
    this.text.className = "note-text";
    this.hide();
  }

  hide() {
    this.ring.hidden = this.text.hidden = true;
  }

  /** Describes `hit`, at (x, y) in CSS pixels of `over`. */
  show(hit, x, y) {
    const { points, name } = hit.layer;
    const i = hit.index;
    const ms = points.latencyMs[i];
    const wait = `${ms < 10 ? ms.toFixed(2) : ms.toFixed(1)} ms`;
    const time = { time: wait };
    const latency = [wait, say("more than {=time}", time), say("gave up after {=time}", time)][Math.min(points.mark[i], 2)];
    this.text.replaceChildren(
      ...[
        name,
        say("request {#n}, due at {#time} s", {
          n: points.request[i].toLocaleString("en"),
          time: points.startS[i].toFixed(3),
        }),
        latency,
        this.marks[points.mark[i]] + (i < points.warmupCount ? `, ${say("warm-up")}` : ""),
        points.cause[i] ? say("mostly {cause}", { cause: say(this.causes[points.cause[i] - 1]) }) : null,
        points.count?.[i] > 1
          ? say("and {#n} more on this pixel", { n: (points.count[i] - 1).toLocaleString("en") })
          : null,
      ].filter((words) => words !== null).map((words) => {
        const line = document.createElement("div");
        line.textContent = words;
        return line;
      }),
    );
    this.ring.hidden = this.text.hidden = false;
    this.ring.style.transform = `translate(${x}px, ${y}px)`;
    const toLeft = x > this.over.clientWidth - this.text.offsetWidth - 20;
    const left = toLeft ? x - this.text.offsetWidth - 12 : x + 12;
    const top = Math.min(Math.max(y - 20, 0), this.over.clientHeight - this.text.offsetHeight);
    this.text.style.transform = `translate(${left}px, ${top}px)`;
  }
}
