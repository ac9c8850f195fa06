/* Requests and connections in full: the dialog that shows one, and the dots that lead to it.
 *
 * html/trial_markup.rs draws and escapes all markup; this only unpacks it when its address is visited. It asks the
 * `squall view` that serves the page for what the page does not have. The part of the address after # has words separated by
 * &: one of them may be `request-3-412`, `connection-3-1-0` or, on a served page, `connection-3-1-0-412`, the connection while
 * request 412 was on it. Others are kept. page.js draws the points, scatter.js calls what is here. */

import { UNFINISHED, say } from "./data.js";
import { offerDownloads } from "./export.js";
import { ask } from "./live.js";
import { failureDepth } from "./paint.js";

const DETAIL = /^(request|connection)-[\d-]+$/;

/** How close the pointer must be to the dot of such a request, in CSS pixels: half the side of a target (WCAG 2.2, 2.5.8). */
const DETAIL_REACH = 12;

/** A press that moves farther than this, in CSS pixels, is a drag. */
const STILL = 4;

function addressWords() {
  // A choice in the same address may have added a `=` to the word.
  return location.hash.slice(1).split("&").map((word) => word.replace(/=$/, "")).filter((word) => word);
}

function detailInAddress() {
  return addressWords().find((word) => DETAIL.test(word)) ?? null;
}

/** The address with this detail, or without one. */
function addressOf(id) {
  const others = addressWords().filter((word) => !DETAIL.test(word));
  return `#${[id, ...others].filter((word) => word).join("&")}`;
}

/** What had the focus when the dialog was opened. The browser forgets it, because visiting an address moves the focus. */
let openedFrom = null;

function openDetail(id) {
  if (!document.getElementById("detail").open) openedFrom = document.activeElement;
  location.hash = addressOf(id);
}

/** The element that holds the markup of a detail, or null. */
function elementOf(id) {
  return document.getElementById(`detail-${id}`);
}

async function markupIn(element) {
  const packed = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** The requests of the page's trials that the `squall view` which serves the page can draw. */
class Served {
  constructor({ source, variants, conditions }) {
    Object.assign(this, { source, variants, trials: conditions.flatMap((condition) => condition.trials), latest: null });
  }

  /** The trial and the request that a detail is about; null if it names no trial of the page, or a connection without a
   * request. */
  subjectOf(id) {
    const parts = /^request-(\d+)-(\d+)$/.exec(id) ?? /^connection-(\d+)-\d+-\d+-(\d+)$/.exec(id);
    const trial = parts && this.trials.find((one) => String(one.index) === parts[1]);
    return trial ? { trial, request: parts[2] } : null;
  }

  /** The title of a detail until its markup is there. */
  titleOf(id) {
    const { trial, request } = this.subjectOf(id);
    return say("{=name}, request {#n}", { name: this.variants[trial.variant], n: request });
  }

  /** A promise of the markup of a detail. The last answer is kept, because a request and its connections are in one. */
  async markupOf(id) {
    const { trial, request } = this.subjectOf(id);
    const question = `requests/${request}/full`;
    const name = `${trial.trial} ${question}`;
    if (this.latest?.name !== name) {
      const answer = ask(this.source, trial, question);
      this.latest = { name, answer };
      answer.catch(() => {
        if (this.latest?.answer === answer) this.latest = null;
      });
    }
    const full = await this.latest.answer;
    if (id.startsWith("request-")) return full.request.markup;
    const connection = full.connections.find((one) => `${one.id}-${request}` === id);
    if (!connection) throw new Error(say("This request was not on that connection."));
    return connection.markup;
  }
}

/** The id of what a link to `target` in the markup of `id` shows; null if that cannot be shown. The markup names a connection
 * without the request; the page itself has connections only while its own requests were on them. */
function destination(target, id, served) {
  const isRequest = target.startsWith("request-");
  if (elementOf(target) && (isRequest || elementOf(id))) return target;
  const wanted = isRequest ? target : `${target}-${served?.subjectOf(id)?.request}`;
  return served?.subjectOf(wanted) ? wanted : null;
}

/** Fills the dialog with a heading and perhaps a paragraph below it. */
function showWords(dialog, heading, words) {
  const lines = Object.entries({ h2: heading, p: words }).filter(([, text]) => text);
  const elements = lines.map(([tag, text]) => {
    const element = document.createElement(tag);
    element.textContent = text;
    return element;
  });
  elements[0].tabIndex = -1;
  fill(dialog, ...elements);
}

/** Replaces the content of the dialog, opens it and moves the focus to its heading. */
function fill(dialog, ...content) {
  const body = document.getElementById("detail-body");
  body.replaceChildren(...content);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  body.querySelector("h2").focus();
}

function showMarkup(dialog, id, markup, served) {
  const template = document.createElement("template");
  template.innerHTML = markup;
  for (const link of template.content.querySelectorAll("a[href^='#']")) {
    const target = destination(link.getAttribute("href").slice(1), id, served);
    if (target) link.setAttribute("href", `#${target}`);
    else link.replaceWith(...link.childNodes);
  }
  fill(dialog, template.content);
  dialog.dataset.shows = id;
  // Not among the plots of the page, which has these drawings only while they are shown.
  offerDownloads(document.getElementById("detail-body"), new Map());
}

/** Shows what the address names, or closes the dialog if that cannot be shown. */
async function showDetail(dialog, served) {
  const id = detailInAddress();
  const element = id && elementOf(id);
  if (!element && !(id && served?.subjectOf(id))) {
    if (dialog.open) dialog.close();
    return;
  }
  try {
    if (!element) {
      delete dialog.dataset.shows;
      showWords(dialog, say("{=title}: reading the record", { title: served.titleOf(id) }));
    }
    const markup = await (element ? markupIn(element) : served.markupOf(id));
    if (detailInAddress() === id) showMarkup(dialog, id, markup, served);
  } catch (error) {
    if (element) throw error;
    if (detailInAddress() === id) showWords(dialog, served.titleOf(id), error.message);
  }
}

/** Opens a request of `trial` in full. */
export function openRequest(trial, request) {
  openDetail(`request-${trial.index}-${request}`);
}

/** Makes links to details open the dialog, and keeps dialog and address together. */
export function followDetails(manifest) {
  const dialog = document.getElementById("detail");
  if (!dialog) return;
  const served = manifest.source ? new Served(manifest) : null;
  addEventListener("hashchange", () => showDetail(dialog, served));
  dialog.addEventListener("close", () => {
    delete dialog.dataset.shows;
    if (detailInAddress()) history.replaceState(null, "", addressOf(null));
    openedFrom?.focus();
    openedFrom = null;
  });
  document.addEventListener("click", (event) => {
    const id = event.target.closest?.("a[href^='#']")?.getAttribute("href").slice(1);
    if (!id || !DETAIL.test(id) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    openDetail(id);
  });
  showDetail(dialog, served);
}

/** The points of a trial that can be shown in full: { index, id }. `element` is the id of the trial's points. */
export function detailsOf(element, points) {
  const rows = [...document.querySelectorAll(`tr[data-points="${element}"]`)];
  const ids = new Map(rows.map((row) => [Number(row.dataset.request), row.id]));
  const found = [];
  if (ids.size === 0) return found;
  points.request.forEach((request, index) => {
    if (ids.has(request)) found.push({ index, id: ids.get(request) });
  });
  return found;
}

/** The place of a point on the canvas, in device pixels. */
function placeOf(points, index, frame) {
  const x = frame.left + (points.startS[index] - frame.xFrom) * frame.xScale;
  const y =
    points.mark[index] > UNFINISHED
      ? frame.top + failureDepth(frame.ratio)
      : frame.top + frame.height - (frame.latencies(points)[index] - frame.yFrom) * frame.yScale;
  return [x, y];
}

/** Draws a ring around each point that can be shown in full. */
export function paintDetailed(context, frame, layers, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5 * frame.ratio;
  for (const { points, details } of layers) {
    for (const { index } of details ?? []) {
      const [x, y] = placeOf(points, index, frame);
      context.beginPath();
      context.arc(x, y, 5 * frame.ratio, 0, 2 * Math.PI);
      context.stroke();
    }
  }
}

/** The id of the nearest such point within reach of the pointer, or null. */
export function detailUnder(scatter, event) {
  const { plot, frame, layers } = scatter;
  if (!frame) return null;
  const box = plot.over.getBoundingClientRect();
  const x = (event.clientX - box.left) * frame.ratio + plot.bbox.left;
  const y = (event.clientY - box.top) * frame.ratio + plot.bbox.top;
  let best = null;
  let least = DETAIL_REACH * frame.ratio;
  for (const { points, details } of layers) {
    for (const { index, id } of details ?? []) {
      const [pointX, pointY] = placeOf(points, index, frame);
      const distance = Math.hypot(pointX - x, pointY - y);
      if (distance < least) [least, best] = [distance, id];
    }
  }
  return best;
}

/** Opens a request in full when its dot is clicked; a drag still zooms. */
export function openOnClick(scatter) {
  const { over } = scatter.plot;
  let pressed = null;
  over.addEventListener("mousedown", (event) => (pressed = event));
  over.addEventListener("mousemove", (event) => {
    over.style.cursor = event.buttons === 0 && detailUnder(scatter, event) ? "pointer" : "";
  });
  over.addEventListener("click", (event) => {
    const isStill = pressed && Math.hypot(event.clientX - pressed.clientX, event.clientY - pressed.clientY) <= STILL;
    const id = isStill && detailUnder(scatter, event);
    if (id) openDetail(id);
  });
}
