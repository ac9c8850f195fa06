/* The page: the controls and plots of each condition, created when they come into view.
 *
 * All text is already in the markup (html/mod.rs); this only adds the interactive parts. Names are foreign
 * text, so they only ever become the text of elements. scatter.js is a single plot. */

import { pointsOf, readManifest } from "./data.js";
import { detailsOf, followDetails } from "./details.js";
import { Scatter } from "./scatter.js";
import { Pane, View } from "./view.js";

/** The number of colours in style.css; further variants start over with the first. */
const SERIES = 7;

const OVERLAY_HEIGHT = 320;
const MULTIPLE_HEIGHT = 190;

const ZOOM_HINT = "Drag to zoom, Shift-drag to move, Ctrl-wheel or + − to zoom time, double-click to reset.";
const MARK_HINT =
  "Each dot is a request. Pale and shaded: warm-up. Open square with a stalk: unfinished, it took longer. Cross at the top: failed.";
const CAUSE_HINT = "Below, each dot has the colour of what the request was mostly spent on: the colours of the table above.";

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
    this.repetition = this.repetitions[0];
    this.variants = manifest.variants.map((_, index) => index).filter((v) => trials.some((t) => t.variant === v));
    this.shown = new Set(this.variants.slice(0, 2));
    this.view = new View(this.wholeX(), log);
    this.panes = { overlay: new Pane(this.view), multiples: new Pane(this.view) };
    this.host.append(this.controls(), this.overlay(), this.multiples());
    this.select();
  }

  wholeX() {
    return [0, Math.max(...this.current().map((trial) => trial.end_s))];
  }

  /** Fits the latency axes to what is drawn: the overlay's to the variants shown, that of the small plots to all. */
  fitPanes() {
    const trials = this.current();
    const shown = trials.filter((trial) => this.shown.has(trial.variant));
    this.panes.overlay.fitTo(latencyRanges(shown.length > 0 ? shown : trials));
    this.panes.multiples.fitTo(latencyRanges(trials));
  }

  current() {
    return this.trials.filter((trial) => trial.repetition === this.repetition);
  }

  controls() {
    const bar = element("div", "controls");
    if (this.repetitions.length > 1) bar.append(this.repetitionChoice());
    bar.append(this.logSwitch());
    const reset = element("button", "reset", "Reset zoom");
    reset.type = "button";
    reset.addEventListener("click", () => this.view.reset());
    const update = () => (reset.disabled = this.view.isWhole());
    this.view.listeners.add(update);
    update();
    bar.append(reset, element("span", "hint", ZOOM_HINT));
    return bar;
  }

  repetitionChoice() {
    const choice = element("select");
    for (const repetition of this.repetitions) {
      const trials = this.trials.filter((trial) => trial.repetition === repetition);
      const invalid = trials.some((trial) => !trial.valid) ? " (has an invalid trial)" : "";
      choice.append(new Option(`${repetition + 1} of ${this.repetitions.length}${invalid}`, repetition));
    }
    choice.addEventListener("change", () => {
      this.repetition = Number(choice.value);
      this.fitPanes();
      this.view.look(this.wholeX());
      this.select();
    });
    return element("label", "", "Repetition ", choice);
  }

  logSwitch() {
    const box = element("input");
    box.type = "checkbox";
    box.className = "log";
    box.checked = this.view.log;
    box.addEventListener("change", () => this.view.setLog(box.checked));
    return element("label", "", box, " Logarithmic latency");
  }

  /** The large plot, which overlays some variants, and the toggles for them. */
  overlay() {
    const toggles = element("fieldset", "toggles", element("legend", "", "Shown together"));
    for (const variant of this.variants) toggles.append(this.toggle(variant));
    const figure = this.figure("overlay", OVERLAY_HEIGHT, this.panes.overlay, () => [...this.shown]);
    figure.prepend(toggles);
    figure.append(element("p", "hint", MARK_HINT));
    return figure;
  }

  toggle(variant) {
    const box = element("input");
    box.type = "checkbox";
    box.checked = this.shown.has(variant);
    box.addEventListener("change", () => {
      if (box.checked) this.shown.add(variant);
      else this.shown.delete(variant);
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
    if (this.trials.some((trial) => trial.has_causes)) {
      return element("div", "", element("p", "hint", CAUSE_HINT), grid);
    }
    return grid;
  }

  figure(kind, height, pane, variants) {
    const plot = element("div", "plot");
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.style.minHeight = `${height}px`;
    const caption = element("figcaption");
    const figure = element("figure", kind, plot, caption);
    const entry = { plot, caption, variants, byCause: kind === "multiple", scatter: null };
    this.scatters.push(entry);
    new IntersectionObserver(
      ([seen]) => {
        if (seen.isIntersecting && !entry.scatter) {
          entry.scatter = new Scatter(plot, pane, height, this.manifest);
          this.fill(entry);
        }
        entry.scatter?.setInSight(seen.isIntersecting);
      },
      { rootMargin: "200px" },
    ).observe(figure);
    return figure;
  }

  /** Updates every plot to the chosen repetition and variants. */
  select() {
    this.fitPanes();
    for (const entry of this.scatters) {
      const trials = this.trialsOf(entry);
      const names = trials.map((trial) => this.manifest.variants[trial.variant]);
      entry.plot.setAttribute("aria-label", `Start time and latency of each request: ${names.join(", ")}`);
      entry.caption.textContent = trials.map((trial, i) => captionOf(trial, names[i], trials.length)).join("; ");
      if (entry.scatter) this.fill(entry);
    }
  }

  trialsOf(entry) {
    const trials = this.current();
    return entry.variants().sort((a, b) => a - b).flatMap((variant) => trials.filter((t) => t.variant === variant));
  }

  async fill(entry) {
    const trials = this.trialsOf(entry);
    try {
      const points = await Promise.all(trials.map(pointsOf));
      // The choice may have changed meanwhile; then the `fill` of the new choice draws it.
      if (String(trials.map((t) => t.element)) !== String(this.trialsOf(entry).map((t) => t.element))) return;
      entry.scatter.setLayers(
        trials.map((trial, i) => ({
          name: this.manifest.variants[trial.variant],
          colour: `--series-${trial.variant % SERIES}`,
          // With a single variant, its colour carries no information.
          causes: entry.byCause && trial.has_causes ? [null, ...this.manifest.causes.map((name) => `--cause-${name}`)] : null,
          points: points[i],
          details: detailsOf(trial.element, points[i]),
          warmupS: trial.warmup_s,
        })),
      );
    } catch (error) {
      entry.caption.textContent = `The points could not be unpacked: ${error.message}. The tables are complete.`;
    }
  }
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
  const invalid = trial.valid ? "" : ", invalid trial";
  return (among > 1 ? `${name}: ` : "") + trial.caption + invalid;
}

const manifest = readManifest();
const sections = [...document.querySelectorAll(".plots")].map((host) => {
  const condition = manifest.conditions[Number(host.dataset.condition)];
  return condition.trials.length > 0 ? new Section(host, condition, manifest) : null;
});

followDetails();

/** For the browser's console, and for the tests that use the page as a person does. */
globalThis.squall = { manifest, sections };
