/* The page: the controls and plots of each condition, created when they come into view.
 *
 * All text is already in the markup (html/mod.rs); this only adds the interactive parts. Names are foreign
 * text, so they only ever become the text of elements. scatter.js is a single plot. */

import { pointsOf, readManifest, say } from "./data.js";
import { detailsOf, followDetails, openRequest } from "./details.js";
import { drawingButtons, offerDownloads, plotAs, plotName, plotNames, svgOfScatter, titleOf } from "./export.js";
import { Inspector } from "./inspect.js";
import { visiblePart, visiblePoints } from "./live.js";
import { Scatter } from "./scatter.js";
import { choiceInAddress, chosen, followConditions, keepChoice } from "./state.js";
import { addSwitches, keepFindings } from "./switches.js";
import { Pane, View } from "./view.js";

/** The number of colours in style.css; further variants start over with the first. */
const SERIES = 7;

const OVERLAY_HEIGHT = 320;
const MULTIPLE_HEIGHT = 190;

/** How long the view must rest before `squall view` is asked, in milliseconds. */
const REST_MS = 60;

/** How long the view must rest before the address keeps it, in milliseconds. Browsers refuse very frequent changes. */
const KEEP_MS = 300;

const ZOOM_HINT = "Drag to zoom, Shift-drag to move, Ctrl-wheel or + − to zoom time, double-click to reset.";
const MARK_HINT =
  "Each dot is a request. Pale and shaded: warm-up. Open square below a hatched band: unfinished, it took at least that long. Cross at the top: failed. Mark on the time axis: the link dropped a packet.";
const LOAD_MARK_HINT =
  "Each dot is a request. Pale and shaded: warm-up. Open square below a hatched band: unfinished, it took at least that long. Cross at the top: failed.";
const CAUSE_HINT = "Coloured by cause, each dot has the colour of what the request was mostly spent on: the colours of the table above.";

/** What the dots' colours stand for: the words, and whether the overlay and the small plots show causes. */
const COLOURINGS = {
  both: { words: "variant above, cause below", overlay: false, multiple: true },
  variant: { words: "variant", overlay: false, multiple: false },
  cause: { words: "cause", overlay: true, multiple: true },
};

/** The width of a plot on A4, in CSS pixels: a large one, and one of two side by side. */
const PRINT_WIDTH = { overlay: 690, multiple: 335 };

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** The plots of one condition, which share one view: the overlay, and one small plot for each variant. */
class Section {
  constructor(host, { trials, starts_logarithmic: log }, manifest) {
    Object.assign(this, { host, trials, manifest, scatters: [] });
    this.repetitions = [...new Set(trials.map((trial) => trial.repetition))].sort((a, b) => a - b);
    this.variants = manifest.variants.map((_, index) => index).filter((v) => trials.some((t) => t.variant === v));
    this.hasCauses = trials.some((trial) => trial.has_causes);
    this.startsLogarithmic = log;
    this.readChoices();
    const axis = chosen(this.choiceName("axis"), ["log", "linear"]) ?? axisWord(log);
    this.view = new View(this.wholeX(), axis === "log");
    this.panes = { overlay: new Pane(this.view), multiples: new Pane(this.view) };
    this.host.append(this.controls(), this.overlay(), this.multiples());
    if (this.repetitions.length > 1) this.host.append(this.sideBySide());
    if (manifest.source) {
      this.inspector = new Inspector(manifest.source);
      this.host.append(this.inspector.element);
      this.view.listeners.add(() => this.refineSoon());
    }
    this.select();
    this.followAddress();
  }

  /** The name in the address of a choice for this condition. */
  choiceName(choice) {
    return `${choice}-${this.host.dataset.condition}`;
  }

  /** Keeps a choice for this condition in the address, unless it is the default. */
  keep(choice, value, usual) {
    keepChoice(this.choiceName(choice), value === usual ? null : value);
  }

  /** Reads from the address what to draw, or uses defaults. In the address, repetitions count from 1 and variants from 0. */
  readChoices() {
    const numbers = this.repetitions.map((repetition) => String(repetition + 1));
    const repetition = chosen(this.choiceName("repetition"), numbers);
    this.repetition = repetition === null ? this.repetitions[0] : Number(repetition) - 1;
    const shown = choiceInAddress(this.choiceName("shown"))?.split("_");
    this.shown = new Set(shown ? this.variants.filter((variant) => shown.includes(String(variant))) : this.variants.slice(0, 2));
    this.colouring = COLOURINGS[chosen(this.choiceName("colour"), Object.keys(COLOURINGS)) ?? "both"];
  }

  /** Restores the visible part from the address, and keeps it there from now on. */
  followAddress() {
    const name = this.choiceName("zoom");
    const [from, to, low, high] = (choiceInAddress(name) ?? "").split("_").map(Number);
    const { overlay } = this.panes;
    if (from < to) overlay.show([from, to], low >= 0 && low < high ? [low, high] : overlay.y);
    let waiting;
    this.view.listeners.add(() => {
      clearTimeout(waiting);
      waiting = setTimeout(() => keepChoice(name, this.zoomInWords()), KEEP_MS);
    });
  }

  /** The visible part for the address: its span in seconds, then in milliseconds unless all latencies are visible. Null if
   * everything is visible. */
  zoomInWords() {
    if (this.view.isWhole()) return null;
    return [...this.view.x, ...(this.view.zoomedY ?? [])].map((end) => Number(end.toPrecision(9))).join("_");
  }

  wholeX() {
    return [0, Math.max(...this.current().map((trial) => trial.end_s))];
  }

  /** Fits the latency axes to what is drawn: the overlay's to the variants shown, that of the small plots to all. */
  fitPanes() {
    const trials = this.current();
    const shown = trials.filter((trial) => this.shown.has(trial.variant));
    this.panes.overlay.fitTo(latencyRanges(shown.length > 0 ? shown : trials));
    // Small plots of other repetitions share this axis.
    this.panes.multiples.fitTo(latencyRanges(this.isSideBySide() ? this.trials : trials));
  }

  isSideBySide() {
    return this.scatters.some((entry) => entry.repetition !== null);
  }

  current() {
    return this.trials.filter((trial) => trial.repetition === this.repetition);
  }

  controls() {
    const bar = element("div", "controls");
    if (this.repetitions.length > 1) bar.append(this.repetitionChoice());
    bar.append(this.logSwitch());
    if (this.hasCauses) bar.append(this.colouringChoice());
    const reset = element("button", "reset", say("Reset zoom"));
    reset.type = "button";
    reset.addEventListener("click", () => this.view.reset());
    const update = () => (reset.disabled = this.view.isWhole());
    this.view.listeners.add(update);
    update();
    bar.append(reset, element("span", "hint", say(ZOOM_HINT)));
    return bar;
  }

  repetitionChoice() {
    const choice = element("select");
    for (const repetition of this.repetitions) {
      const trials = this.trials.filter((trial) => trial.repetition === repetition);
      const invalid = trials.some((trial) => !trial.valid) ? ` ${say("(has an invalid or doubtful trial)")}` : "";
      const words = say("{#n} of {#all}", { n: repetition + 1, all: this.repetitions.length });
      choice.append(new Option(words + invalid, repetition));
    }
    choice.value = String(this.repetition);
    choice.addEventListener("change", () => {
      this.repetition = Number(choice.value);
      this.keep("repetition", String(this.repetition + 1), String(this.repetitions[0] + 1));
      this.fitPanes();
      this.view.look(this.wholeX());
      this.select();
    });
    return element("label", "", `${say("Repetition")} `, choice);
  }

  logSwitch() {
    const box = element("input");
    box.type = "checkbox";
    box.className = "log";
    box.checked = this.view.log;
    box.addEventListener("change", () => {
      this.view.setLog(box.checked);
      this.keep("axis", axisWord(box.checked), axisWord(this.startsLogarithmic));
    });
    return element("label", "", box, ` ${say("Logarithmic latency")}`);
  }

  colouringChoice() {
    const choice = element("select", "colouring");
    for (const [name, { words }] of Object.entries(COLOURINGS)) choice.append(new Option(say(words), name));
    choice.value = Object.keys(COLOURINGS).find((name) => COLOURINGS[name] === this.colouring);
    choice.addEventListener("change", () => {
      this.colouring = COLOURINGS[choice.value];
      this.keep("colour", choice.value, "both");
      this.select();
    });
    return element("label", "", `${say("Colour by")} `, choice);
  }

  /** The large plot, which overlays some variants, and the toggles for them. */
  overlay() {
    const toggles = element("fieldset", "toggles", element("legend", "", say("Shown together")));
    for (const variant of this.variants) toggles.append(this.toggle(variant));
    const figure = this.figure("overlay", OVERLAY_HEIGHT, this.panes.overlay, () => [...this.shown]);
    figure.prepend(toggles);
    figure.append(element("p", "hint", say(this.manifest.is_load ? LOAD_MARK_HINT : MARK_HINT)));
    if (this.manifest.source) figure.append(element("p", "hint", say("Click on a request to see it in full.")));
    return figure;
  }

  toggle(variant) {
    const box = element("input");
    box.type = "checkbox";
    box.checked = this.shown.has(variant);
    box.addEventListener("change", () => {
      if (box.checked) this.shown.add(variant);
      else this.shown.delete(variant);
      this.keep("shown", variantsInWords(this.shown), variantsInWords(this.variants.slice(0, 2)));
      this.select();
    });
    return element("label", "", box, swatch(variant), this.manifest.variants[variant]);
  }

  /** One small plot for each variant, with common axes. */
  multiples() {
    const grid = element("div", "multiples");
    for (const variant of this.variants) {
      const figure = this.figure("multiple", MULTIPLE_HEIGHT, this.panes.multiples, () => [variant]);
      figure.prepend(element("h3", "", swatch(variant), this.manifest.variants[variant]));
      grid.append(figure);
    }
    if (this.hasCauses) {
      return element("div", "", element("p", "hint", say(CAUSE_HINT)), grid);
    }
    return grid;
  }

  /** A small plot for each variant and repetition, created when it is opened. */
  sideBySide() {
    const details = element("details", "side-by-side", element("summary", "", say("All repetitions side by side")));
    details.addEventListener("toggle", () => {
      if (details.open) this.fillSideBySide(details);
    });
    return details;
  }

  /** Opens the small plots of all repetitions, if there are several. */
  openSideBySide() {
    const details = this.host.querySelector(".side-by-side");
    if (!details) return;
    details.open = true;
    this.fillSideBySide(details);
  }

  fillSideBySide(details) {
    if (details.querySelector("figure")) return;
    const grid = element("div", "multiples");
    for (const variant of this.variants) {
      for (const repetition of this.repetitions) {
        const figure = this.figure("multiple", MULTIPLE_HEIGHT, this.panes.multiples, () => [variant], repetition);
        const title = say("{=name}, repetition {#n}", { name: this.manifest.variants[variant], n: repetition + 1 });
        figure.prepend(element("h3", "", swatch(variant), title));
        grid.append(figure);
      }
    }
    details.append(grid);
    this.select();
  }

  /** Without a `repetition`, it shows the chosen one. */
  figure(kind, height, pane, variants, repetition = null) {
    const plot = element("div", "plot");
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.style.minHeight = `${height}px`;
    const caption = element("figcaption");
    const figure = element("figure", kind, plot, caption);
    const entry = { kind, plot, pane, height, caption, variants, repetition, scatter: null, filled: null };
    this.scatters.push(entry);
    const labelOf = (format) => say("Download this plot as {=format}", { format });
    figure.append(...drawingButtons(labelOf, this.nameOf(entry), () => this.svgOf(entry)));
    new IntersectionObserver(
      ([seen]) => {
        if (seen.isIntersecting && !entry.scatter) {
          this.create(entry);
        }
        entry.scatter?.setInSight(seen.isIntersecting);
        if (seen.isIntersecting) this.refineSoon();
      },
      { rootMargin: "200px" },
    ).observe(figure);
    return figure;
  }

  /** The name of a plot's files. */
  nameOf({ kind, variants, repetition }) {
    const parts = [this.host.closest(".condition").id, "requests"];
    if (kind === "multiple") parts.push(this.manifest.variants[variants()[0]]);
    if (repetition !== null) parts.push(`repetition-${repetition + 1}`);
    return plotName(...parts);
  }

  /** A plot as SVG, even if it has not been in view yet. */
  async svgOf(entry) {
    await this.drawn(entry);
    entry.scatter.draw();
    return svgOfScatter(entry.scatter, titleOf(entry.plot));
  }

  create(entry) {
    entry.scatter = new Scatter(entry.plot, entry.pane, entry.height, this.manifest);
    if (this.manifest.source) entry.scatter.onChoice = ({ trial }, request) => openRequest(trial, request);
    entry.filled = this.fill(entry);
  }

  /** Creates a plot that has not been in view yet. Returns a promise that it has its points. */
  drawn(entry) {
    if (!entry.scatter) this.create(entry);
    return entry.filled;
  }

  /** Draws every plot that has not been in view yet, and returns when all are drawn. */
  async drawAll() {
    await Promise.all(this.scatters.map((entry) => this.drawn(entry)));
  }

  /** Draws every plot immediately, in the width of a page of paper or of the screen. */
  resizeAll(isPrinting) {
    for (const { kind, scatter } of this.scatters) {
      if (!scatter) continue;
      scatter.resize(isPrinting ? PRINT_WIDTH[kind] : undefined);
      scatter.draw();
    }
  }

  /** Updates every plot to the chosen repetition and variants. */
  select() {
    this.fitPanes();
    for (const entry of this.scatters) {
      const trials = this.trialsOf(entry);
      const names = trials.map((trial) => this.manifest.variants[trial.variant]);
      const n = (entry.repetition ?? this.repetition) + 1;
      const shown = this.repetitions.length > 1 ? names.map((name) => say("{=name}, repetition {#n}", { name, n })) : names;
      entry.plot.setAttribute("aria-label", say("Start time and latency of each request: {=names}", { names: shown.join("; ") }));
      entry.caption.textContent = trials.map((trial, i) => captionOf(trial, names[i], trials.length)).join("; ");
      if (entry.scatter) entry.filled = this.fill(entry);
    }
  }

  trialsOf(entry) {
    const repetition = entry.repetition ?? this.repetition;
    const trials = this.trials.filter((trial) => trial.repetition === repetition);
    return entry.variants().sort((a, b) => a - b).flatMap((variant) => trials.filter((t) => t.variant === variant));
  }

  async fill(entry) {
    const trials = this.trialsOf(entry);
    try {
      const points = await Promise.all(trials.map(pointsOf));
      // The choice may have changed meanwhile; then the `fill` of the new choice draws it.
      if (String(trials.map((t) => t.element)) !== String(this.trialsOf(entry).map((t) => t.element))) return;
      this.draw(entry, trials, points);
    } catch (error) {
      entry.caption.textContent = say("The points could not be unpacked: {=why}. The tables are complete.", { why: error.message });
    }
    entry.shown = null;
    await this.refine(entry);
  }

  draw(entry, trials, points) {
    entry.scatter.setLayers(
      trials.map((trial, i) => ({
        trial,
        name: this.manifest.variants[trial.variant],
        colour: `--series-${trial.variant % SERIES}`,
        causes: this.colouring[entry.kind] && trial.has_causes ? [null, ...this.manifest.causes.map((name) => `--cause-${name}`)] : null,
        points: points[i],
        details: detailsOf(trial.element, points[i]),
        warmupS: trial.warmup_s,
      })),
    );
  }

  /** Asks for more detail as soon as the view rests. */
  refineSoon() {
    if (!this.manifest.source) return;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      for (const entry of this.scatters) this.refine(entry);
    }, REST_MS);
  }

  /** If `squall view` serves this page: replaces the points of a visible plot with all those in its visible part. */
  async refine(entry) {
    if (!this.manifest.source || !entry.scatter?.inSight) return;
    const trials = this.trialsOf(entry);
    const { clientWidth, clientHeight } = entry.scatter.plot.over;
    const part = visiblePart(entry.pane, clientWidth, clientHeight);
    const shown = [part, ...trials.map((trial) => trial.element)].join(" ");
    if (entry.shown === shown) return;
    entry.shown = shown;
    if (entry.kind === "overlay") {
      this.inspector.follow(trials, trials.map((trial) => this.manifest.variants[trial.variant]), entry.pane);
    }
    try {
      const points = await Promise.all(trials.map((trial) => visiblePoints(this.manifest.source, trial, part)));
      // The view or the choice may have changed meanwhile.
      if (entry.shown === shown) this.draw(entry, trials, points);
    } catch (error) {
      entry.shown = null;
      entry.caption.textContent = say("squall view did not answer, so this is incomplete: {=why}", { why: error.message });
    }
  }
}

function axisWord(isLogarithmic) {
  return isLogarithmic ? "log" : "linear";
}

/** Variants as they are in the address. */
function variantsInWords(variants) {
  return [...variants].sort((a, b) => a - b).join("_") || "none";
}

/** The latency ranges, linear and logarithmic, that hold every point of `trials`. */
function latencyRanges(trials) {
  const latencies = trials.flatMap((trial) => trial.latency_range_ms ?? []);
  const highest = Math.max(...latencies, 0.001);
  const lowest = Math.max(Math.min(...latencies, highest), 0.001);
  return {
    // Room above for the crosses of failures.
    y: [0, highest * 1.08],
    yLog: [10 ** Math.floor(Math.log10(lowest)), highest * 1.5],
  };
}

function swatch(variant) {
  const made = element("i", "swatch");
  made.style.setProperty("--series", `var(--series-${variant % SERIES})`);
  return made;
}

function captionOf(trial, name, among) {
  const invalid = trial.valid ? "" : `, ${say("invalid or doubtful trial")}`;
  return (among > 1 ? `${name}: ` : "") + trial.caption + invalid;
}

/** On paper, every plot is drawn and nothing is folded. Points are unpacked asynchronously, and nothing waits for that
 * while a page is being printed, so the page's own button and Ctrl-P first draw the plots that were not in view and those of all
 * repetitions. */
function printEverything(sections) {
  let closed = [];
  const unfold = (all) => {
    closed.push(...all);
    for (const details of all) details.open = true;
  };
  addEventListener("beforeprint", () => {
    unfold(document.querySelectorAll("main details:not([open], .side-by-side)"));
    document.documentElement.classList.add("printing");
    for (const section of sections) section.resizeAll(true);
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
    closed = [];
    document.documentElement.classList.remove("printing");
    for (const section of sections) section.resizeAll(false);
  });
  const drawAndPrint = async () => {
    for (const section of sections) {
      unfold(section.host.querySelectorAll(".side-by-side:not([open])"));
      section.openSideBySide();
      await section.drawAll();
    }
    globalThis.print();
  };
  const button = element("button", "print", say("Print"));
  button.type = "button";
  button.addEventListener("click", drawAndPrint);
  document.querySelector("header").append(button);
  addEventListener("keydown", (event) => {
    if (event.key !== "p" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    drawAndPrint();
  });
}

const manifest = readManifest();
const sections = [...document.querySelectorAll(".plots")].map((host) => {
  const condition = manifest.conditions[Number(host.dataset.condition)];
  return condition.trials.length > 0 ? new Section(host, condition, manifest) : null;
});

addSwitches();
keepFindings();
offerDownloads(document);
followConditions();
followDetails(manifest);
printEverything(sections.filter((section) => section !== null));

/** The names of all plots, including folded ones, which it unfolds. */
function allPlotNames() {
  for (const section of sections) section?.openSideBySide();
  return plotNames();
}

/** For the browser's console, for `squall export`, and for the tests that use the page as a person does. */
globalThis.squall = { manifest, sections, allPlotNames, plotAs };
