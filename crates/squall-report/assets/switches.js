/* The switches of the comparison: which statistic the bars show, and which pair and measure the grids show. Also, which
 * findings are unfolded.
 *
 * Everything is in the markup (html/comparison.rs, html/grid.rs, html/findings.rs); this hides what is not chosen. The address
 * keeps the choices. Without scripts, and on paper, all of it is visible. */

import { say } from "./data.js";
import { choiceInAddress, chosen, keepChoice } from "./state.js";

/** A labelled choice among `options` that calls `show` when it changes. Its value is in the address under `name`. */
function choice(name, words, options, usual, show) {
  const select = document.createElement("select");
  for (const option of options) select.append(new Option(say(option), option));
  select.value = chosen(name, options) ?? usual;
  select.addEventListener("change", () => {
    keepChoice(name, select.value);
    show();
  });
  const label = document.createElement("label");
  label.append(`${say(words)} `, select);
  return { label, select };
}

function barOf(...labels) {
  const bar = document.createElement("div");
  bar.className = "controls";
  bar.append(...labels);
  return bar;
}

/** Each value of a data attribute once, in order. */
function valuesOf(elements, key) {
  return [...new Set(elements.map((one) => one.dataset[key]))];
}

function switchBars(host) {
  const figures = [...host.querySelectorAll("[data-statistic]")];
  const show = () => {
    for (const figure of figures) figure.hidden = select.value !== "all" && figure.dataset.statistic !== select.value;
  };
  const options = [...valuesOf(figures, "statistic"), "all"];
  const { label, select } = choice("statistic", "Statistic", options, host.dataset.default, show);
  host.prepend(barOf(label));
  show();
}

function switchGrids(host) {
  const grids = [...host.querySelectorAll(".compared")];
  const show = () => {
    const isChosen = ({ dataset }) => dataset.measure === measure.select.value && dataset.pair === pair.select.value;
    for (const grid of grids) grid.hidden = !isChosen(grid);
  };
  const [measures, pairs] = [valuesOf(grids, "measure"), valuesOf(grids, "pair")];
  const measure = choice("measure", "Measure", measures, measures[0], show);
  const pair = choice("pair", "Variants", pairs, pairs[0], show);
  grids[0].before(barOf(measure.label, pair.label));
  show();
}

/** Adds the switches to the comparison. */
export function addSwitches() {
  document.querySelectorAll(".bars").forEach(switchBars);
  document.querySelectorAll(".crossover").forEach(switchGrids);
}

/** Unfolds the findings that the address names, and keeps there which ones are unfolded. */
export function keepFindings() {
  const findings = [...document.querySelectorAll(".finding[data-finding]")];
  const unfolded = (choiceInAddress("findings") ?? "").split(".");
  for (const finding of findings) {
    if (unfolded.includes(finding.dataset.finding)) finding.open = true;
    finding.addEventListener("toggle", () => {
      // Printing unfolds all of them.
      if (document.documentElement.classList.contains("printing")) return;
      const open = findings.filter((one) => one.open).map((one) => one.dataset.finding);
      keepChoice("findings", open.join(".") || null);
    });
  }
}
