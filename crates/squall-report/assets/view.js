/* The visible part of a condition's requests: the ranges of both axes.
 *
 * All plots of a condition share time and zoom (View). The full range of the latency axis differs, because it
 * fits what is drawn, so plots with a common axis share a Pane. Both hold only numbers and touch no element. A
 * plot subscribes in order to draw and calls in order to zoom: see scatter.js. x is in seconds from the first
 * arrival, y in milliseconds. */

export class View {
  /** A reset returns to the range of time `wholeX`. */
  constructor(wholeX, log) {
    this.listeners = new Set();
    this.log = log;
    this.look(wholeX);
  }

  /** Changes the full range, for example to that of another repetition. */
  look(wholeX) {
    this.wholeX = wholeX;
    this.reset();
  }

  reset() {
    this.x = [...this.wholeX];
    // Null: the full range of each pane.
    this.zoomedY = null;
    this.changed();
  }

  /** True while everything is visible. */
  isWhole() {
    return this.zoomedY === null && String(this.x) === String(this.wholeX);
  }

  setLog(log) {
    this.log = log;
    this.zoomedY = null;
    this.changed();
  }

  changed() {
    for (const listener of this.listeners) listener();
  }
}

/** The plots of a view that share a latency axis. */
export class Pane {
  constructor(view) {
    this.view = view;
    this.fitTo({ y: [0, 1], yLog: [0.1, 1] });
  }

  /** Sets the full range: { y: [from, to], yLog: [from, to] }. Listeners are not notified. */
  fitTo(whole) {
    this.whole = whole;
  }

  get x() {
    return this.view.x;
  }

  get y() {
    return this.view.zoomedY ?? this.wholeY();
  }

  get log() {
    return this.view.log;
  }

  wholeY() {
    return this.log ? this.whole.yLog : this.whole.y;
  }

  reset() {
    this.view.reset();
  }

  /** Shows these ranges, limited to the full ones. If y does not change, neither does whether it is the full range. */
  show(x, y) {
    this.view.x = within(x, this.view.wholeX, 1e-3, linear);
    if (String(y) !== String(this.y)) this.view.zoomedY = this.zoomedTo(y);
    this.view.changed();
  }

  zoomedTo(y) {
    const whole = this.wholeY();
    if (y[0] <= whole[0] && y[1] >= whole[1]) return null;
    // Another pane may have zoomed to where this one has nothing, so the way back must also include that range.
    const reach = [Math.min(whole[0], this.y[0]), Math.max(whole[1], this.y[1])];
    return within(y, reach, 1e-3, this.scaleY());
  }

  scaleY() {
    return this.log ? logarithmic : linear;
  }

  /** Zooms by `factor` (below 1: closer) around a point, given as shares of the plot from the bottom left. */
  zoom(factor, share, axes = { x: true, y: false }) {
    const about = (range, at, scale) => {
      const [from, to] = range.map(scale.forth);
      const fixed = from + (to - from) * at;
      return [fixed - (fixed - from) * factor, fixed + (to - fixed) * factor].map(scale.back);
    };
    this.show(
      axes.x ? about(this.x, share.x, linear) : this.x,
      axes.y ? about(this.y, share.y, this.scaleY()) : this.y,
    );
  }

  /** Moves by shares of the plot's width and height. */
  pan(dx, dy) {
    const moved = (range, by, scale) => {
      if (by === 0) return range;
      const [from, to] = range.map(scale.forth);
      return [from + (to - from) * by, to + (to - from) * by].map(scale.back);
    };
    // If everything is visible, there is nowhere to move to.
    const y = this.view.zoomedY === null ? this.y : moved(this.y, dy, this.scaleY());
    this.show(moved(this.x, dx, linear), y);
  }
}

const linear = { forth: (v) => v, back: (v) => v };
const logarithmic = { forth: Math.log10, back: (v) => 10 ** v };

/** `range` moved, and if necessary cut, to fit into `whole`; never smaller than the share `least` of it. */
function within(range, whole, least, scale) {
  const [low, high] = whole.map(scale.forth);
  let [from, to] = range.map(scale.forth);
  const span = Math.min(Math.max(to - from, (high - low) * least), high - low);
  const middle = (from + to) / 2;
  from = Math.min(Math.max(middle - span / 2, low), high - span);
  // The ends of the whole are used unchanged, because converting to a logarithm and back is not exact.
  const ends = span === high - low ? whole : [from, from + span].map(scale.back);
  return [...ends];
}
