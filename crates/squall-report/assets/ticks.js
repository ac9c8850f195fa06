/* The ticks of a logarithmic axis: at round numbers, however it is zoomed.
 *
 * Pure arithmetic: it draws nothing and depends on no plot. (uPlot's own logarithmic ticks start at the lower end of
 * the range, so a zoom to 14.199 ms puts a tick at 14.199.) The linear axis keeps uPlot's ticks. scatter.js uses
 * these. */

/** The least distance between two ticks, in CSS pixels: a line of text and some space. */
const ROOM = 16;

/** Leading digits of the ticks, in order of preference; the last row only if the range is at most one decade. */
const DIGITS = [[1], [2, 5], [3, 4, 6, 7, 8, 9]];

/** Ticks of a logarithmic axis from `min` to `max`, both above zero, on `height` CSS pixels. Sorted. */
export function logTicks(min, max, height) {
  const decades = Math.log10(max / min);
  const place = (value) => (Math.log10(value / min) / decades) * height;
  const ticks = [];
  for (const digits of decades <= 1 ? DIGITS : DIGITS.slice(0, 2)) {
    const level = multiples(digits, min, max);
    // Ticks of a level are used as far as they fit between those of the levels before it.
    for (const tick of level) {
      if (ticks.every((other) => Math.abs(place(other) - place(tick)) >= ROOM)) ticks.push(tick);
    }
  }
  // Between two neighbours such as 10 and 20, the axis is nearly linear, and so are its ticks.
  return ticks.length >= 3 ? ticks.sort((a, b) => a - b) : evenTicks(min, max, height);
}

/** Every digit x 10^n from `min` to `max`. */
function multiples(digits, min, max) {
  const found = [];
  for (let n = Math.floor(Math.log10(min)); n <= Math.log10(max); n++) {
    found.push(...digits.map((digit) => exact(digit * 10 ** n)).filter((v) => v >= min && v <= max));
  }
  return found;
}

/** Multiples of 1, 2 or 5 x 10^n, as many as fit. */
function evenTicks(min, max, height) {
  const least = ((max - min) * ROOM * 1.5) / height;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= least) ?? 10 * power;
  const ticks = [];
  for (let n = Math.ceil(min / step); n * step <= max; n++) ticks.push(exact(n * step));
  return ticks;
}

/** Removes the rounding error of binary fractions: 0.3, not 0.30000000000000004. */
function exact(value) {
  return Number(value.toPrecision(12));
}
