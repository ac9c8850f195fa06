/* Downloads: each table as CSV, each drawing as SVG and as PNG.
 *
 * Files are made in the page when asked for; nothing is fetched. A drawing gets the styles that it has on the page, so
 * that it looks the same by itself. Points of a scatter plot, which is a canvas, become paths. A PNG is what the browser
 * draws of the SVG, on the page's background.
 *
 * `squall export` opens the page in a browser, too, and asks for the same files by `plotAs`. */

import { ANSWERED, UNFINISHED, say } from "./data.js";

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** How many pixels of a PNG a CSS pixel has in each direction. */
const PIXEL_RATIO = 2;

/** The properties that decide how a piece of a drawing looks. */
const LOOKS = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor",
];

/** The longest part of a plot's name, in characters: file systems allow 255 bytes for the whole name. */
const PART_AT_MOST = 48;

/** The plots of the page: the names of their files, each with a function that returns the SVG or the promise of it. */
const plots = new Map();

/** A button that saves `content()` as a file: a text or a blob, or the promise of one. */
function saveButton(words, label, name, type, content) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "save";
  button.textContent = words;
  button.setAttribute("aria-label", label);
  button.addEventListener("click", async () => {
    try {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([await content()], { type }));
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    } catch (error) {
      button.textContent = `${words}: ${error.message}`;
    }
  });
  return button;
}

/** The name of a plot from its parts, of which each may be foreign text: lower case, and only characters that are safe in the
 * name of a file. */
export function plotName(...parts) {
  const safe = parts.map((part) => {
    const words = [...part.toLowerCase()].slice(0, PART_AT_MOST).join("");
    return words.replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "");
  });
  return safe.filter((part) => part).join("-");
}

/** What a plot shows, and the condition, request or connection that it belongs to. */
export function titleOf(plot) {
  const condition = plot.closest(".condition")?.getAttribute("aria-label");
  const detail = plot.closest("dialog")?.querySelector("h2")?.textContent;
  return [plot.getAttribute("aria-label"), condition ?? detail].filter((words) => words).join("; ");
}

/** The id of the condition, or of the request or connection in full, that a table or a drawing is in. It begins the names of
 * files. */
function partOf(element) {
  return element.closest(".condition")?.id ?? element.closest("dialog")?.dataset.shows ?? "";
}

/** `wanted`, with a number at its end if `names` has it already. */
function unusedName(names, wanted) {
  let name = wanted;
  for (let number = 2; names.has(name); number++) name = `${wanted}-${number}`;
  return name;
}

/** Adds a plot of this name to `among`, and returns the buttons that save it in each format. `labelOf` names a format's button,
 * `svg()` is the plot as SVG or the promise of it. Of plots with the same name, the later ones get a number. */
export function drawingButtons(labelOf, wanted, svg, among = plots) {
  const name = unusedName(among, wanted);
  among.set(name, svg);
  return [
    saveButton("SVG", labelOf("SVG"), `${name}.svg`, "image/svg+xml", svg),
    saveButton("PNG", labelOf("PNG"), `${name}.png`, "image/png", async () => pngOf(await svg())),
  ];
}

/** The names of the plots that the page has so far. */
export function plotNames() {
  return [...plots.keys()];
}

/** The promise of a plot as a file: the text of an SVG, or for `png` a `data:` URL in base64. */
export async function plotAs(name, format) {
  const svg = await plots.get(name)();
  if (format === "svg") return svg;
  const reader = new FileReader();
  const picture = await pngOf(svg);
  return new Promise((resolve, reject) => {
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(picture);
  });
}

/** Puts buttons below every table with a name and every drawing within `root`. The drawings become plots of `among`. */
export function offerDownloads(root, among = plots) {
  const names = new Set();
  for (const table of root.querySelectorAll("table[data-name]")) {
    const shown = table.closest("dialog")?.dataset.shows;
    const name = unusedName(names, [shown, table.dataset.name].filter((part) => part).join("-"));
    names.add(name);
    const button = saveButton("CSV", say("Download as {=format}: {=label}", { format: "CSV", label: name }), `${name}.csv`, "text/csv", () => csvOf(table));
    (table.closest(".scroll") ?? table).after(button);
  }
  for (const svg of root.querySelectorAll("main svg[data-plot]")) {
    const label = svg.getAttribute("aria-label");
    const labelOf = (format) => say("Download as {=format}: {=label}", { format, label });
    const variant = svg.closest("figure")?.querySelector("h3")?.textContent ?? "";
    const name = plotName(partOf(svg), svg.dataset.plot, variant);
    svg.after(...drawingButtons(labelOf, name, () => svgOf(svg), among));
  }
}

/** A table as text: RFC 4180. */
export function csvOf(table) {
  const spans = [];
  const rows = [...table.querySelectorAll("tr")].map((row) => {
    const fields = [];
    for (const cell of row.cells) {
      // Cells of earlier rows may reach into this one.
      while (spans[fields.length]?.left > 0) fields.push(reuse(spans, fields.length));
      if (cell.rowSpan > 1) spans[fields.length] = { left: cell.rowSpan - 1, words: wordsOf(cell) };
      fields.push(wordsOf(cell));
    }
    return fields.map((words) => (/[",\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words)).join(",");
  });
  return `${rows.join("\r\n")}\r\n`;
}

function reuse(spans, place) {
  spans[place].left -= 1;
  return spans[place].words;
}

/** The text of a cell; of a stack, what its pieces say. */
function wordsOf(cell) {
  const pieces = [...cell.querySelectorAll(".bar > [title]")].map((piece) => piece.title);
  const words = pieces.length > 0 ? pieces.join("; ") : [...cell.childNodes].map((node) => node.textContent).join(" ");
  return words.replace(/\s+/g, " ").trim();
}

/** A drawing of the page as a file. */
export function svgOf(svg) {
  const copy = svg.cloneNode(true);
  const [originals, copies] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  originals.forEach((original, place) => {
    const style = getComputedStyle(original);
    for (const look of LOOKS) copies[place].style.setProperty(look, style.getPropertyValue(look));
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const title = document.createElementNS(SVG_NAMESPACE, "title");
  title.textContent = titleOf(svg);
  copy.prepend(title, document.querySelector("svg.defs defs").cloneNode(true));
  return new XMLSerializer().serializeToString(copy);
}

/** The picture of an SVG, as a blob. */
async function pngOf(svg) {
  const image = new Image();
  await new Promise((resolve, reject) => {
    image.addEventListener("load", resolve);
    image.addEventListener("error", () => reject(new Error(say("the browser cannot draw it; take the SVG"))));
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  });
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth * PIXEL_RATIO;
  canvas.height = image.naturalHeight * PIXEL_RATIO;
  const ink = canvas.getContext("2d");
  ink.fillStyle = getComputedStyle(document.body).backgroundColor;
  ink.fillRect(0, 0, canvas.width, canvas.height);
  ink.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (blob === null) throw new Error(say("it is too large for the browser; take the SVG"));
  return blob;
}

/** A scatter plot as a file with this title. */
export function svgOfScatter(scatter, title) {
  const { plot, pane } = scatter;
  const frame = { ...scatter.frame, left: 70, top: 10, ratio: 1 };
  const ratio = scatter.frame.ratio;
  Object.assign(frame, { width: frame.width / ratio, height: frame.height / ratio });
  Object.assign(frame, { xScale: frame.xScale / ratio, yScale: frame.yScale / ratio });
  const ink = scatter.colour("--ink").trim();
  const parts = [`<title>${new XMLSerializer().serializeToString(document.createTextNode(title))}</title>`];
  for (const [axis, from] of [[plot.axes[0], "x"], [plot.axes[1], "y"]]) {
    axis._splits.forEach((value, place) => {
      const label = axis._values[place];
      if (label === null || label === undefined) return;
      const at = plot.valToPos(value, from);
      parts.push(from === "x"
        ? `<text x="${frame.left + at}" y="${frame.top + frame.height + 16}" text-anchor="middle">${label}</text>`
        : `<text x="${frame.left - 6}" y="${frame.top + at + 4}" text-anchor="end">${label}</text>`);
    });
  }
  parts.push(`<rect x="${frame.left}" y="${frame.top}" width="${frame.width}" height="${frame.height}" fill="none" stroke="${ink}"/>`);
  for (const layer of scatter.resolved()) parts.push(...pathsOf(layer, frame, pane));
  const size = `width="${frame.left + frame.width + 16}" height="${frame.top + frame.height + 24}"`;
  return `<svg xmlns="${SVG_NAMESPACE}" ${size} font-family="sans-serif" font-size="11" fill="${ink}">${parts.join("\n")}</svg>`;
}

/** The visible points of a layer: a path for each colour, upward lines for unfinished requests, crosses for failures. */
function pathsOf({ points, colour, causes }, frame, pane) {
  const dots = new Map();
  let unfinished = "";
  let failed = "";
  const latencies = frame.latencies(points);
  for (let i = 0; i < points.startS.length; i++) {
    if (points.startS[i] < pane.x[0] || points.startS[i] > pane.x[1]) continue;
    const x = (frame.left + (points.startS[i] - frame.xFrom) * frame.xScale).toFixed(1);
    const depth = frame.height - (latencies[i] - frame.yFrom) * frame.yScale;
    if (points.mark[i] > UNFINISHED) failed += `M${x} ${frame.top + 3}l6 6m0 -6l-6 6`;
    else if (depth < 0 || depth > frame.height) continue;
    else if (points.mark[i] === ANSWERED) {
      const own = causes?.[points.cause[i]] ?? colour;
      dots.set(own, `${dots.get(own) ?? ""}M${x} ${(frame.top + depth).toFixed(1)}h0`);
    } else unfinished += `M${x} ${(frame.top + depth).toFixed(1)}V${frame.top}`;
  }
  const path = (d, stroke, look) => (d ? [`<path d="${d}" fill="none" stroke="${stroke}" ${look}/>`] : []);
  return [
    ...[...dots].flatMap(([own, d]) => path(d, own, 'stroke-width="3" stroke-linecap="square"')),
    ...path(unfinished, colour, 'stroke-dasharray="3 3"'),
    ...path(failed, colour, ""),
  ];
}
