/* Requests and connections in full: the dialog that shows one, and the dots that lead to it.
 *
 * html/trial_markup.rs draws and escapes all markup; this only unpacks it when its address is visited. The part of the address
 * behind # has words separated by &: one of them may be `request-3-412` or `connection-3-1-0`. Others are kept. page.js draws
 * the points, scatter.js calls what is here. */

import { UNFINISHED } from "./data.js";
import { offerDownloads } from "./export.js";
import { failureDepth } from "./paint.js";

const DETAIL = /^(request|connection)-[\d-]+$/;

/** How close the pointer must be to the dot of such a request, in CSS pixels: half the side of a target (WCAG 2.2, 2.5.8). */
const DETAIL_REACH = 12;

/** A press that moves farther than this, in CSS pixels, is a drag. */
const STILL = 4;

function addressWords() {
  // A choice that is kept beside it may have given it a `=`.
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

export function openDetail(id) {
  if (!document.getElementById("detail").open) openedFrom = document.activeElement;
  location.hash = addressOf(id);
}

async function markupOf(element) {
  const packed = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** Shows what the address names, or closes the dialog if it names nothing that there is. */
async function showDetail(dialog) {
  const id = detailInAddress();
  const element = id && document.getElementById(`detail-${id}`);
  if (!element) {
    if (dialog.open) dialog.close();
    return;
  }
  const markup = await markupOf(element);
  if (detailInAddress() !== id) return;
  const body = document.getElementById("detail-body");
  body.innerHTML = markup;
  // There may not have been room for everything that it refers to.
  for (const link of body.querySelectorAll("a[href^='#']")) {
    if (!document.getElementById(`detail-${link.hash.slice(1)}`)) link.replaceWith(...link.childNodes);
  }
  dialog.dataset.shows = id;
  // They are no plots of the page, which has them only while they are shown.
  offerDownloads(body, new Map());
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  body.querySelector("h2").focus();
}

/** Makes links to details open the dialog, and keeps dialog and address together. */
export function followDetails() {
  const dialog = document.getElementById("detail");
  if (!dialog) return;
  addEventListener("hashchange", () => showDetail(dialog));
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
  showDetail(dialog);
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
