/* One scatter plot: axes by uPlot, points by paint.js, and every way to zoom.
 *
 * It does not choose what is drawn (page.js does) and keeps no ranges: its Pane does (view.js). It draws at most
 * once per frame, and only while it is visible. */

import { detailUnder, openOnClick, paintDetailed } from "./details.js";
import { Note, nearest } from "./hover.js";
import { Raster, frameOf, paintDrops, paintLayers } from "./paint.js";
import { logTicks } from "./ticks.js";

const inFrame = new Set();

/** Draws `scatter` once in the next frame, however often this is called. */
function drawSoon(scatter) {
  if (inFrame.size === 0) {
    requestAnimationFrame(() => {
      const waiting = [...inFrame];
      inFrame.clear();
      for (const one of waiting) one.draw();
    });
  }
  inFrame.add(scatter);
}

/** uPlot's options for an axis with the ticks of ticks.js, each of them labelled. */
const ROUND_TICKS = {
  splits: (plot, _, min, max) => logTicks(min, max, plot.bbox.height / devicePixelRatio),
  filter: (_, splits) => splits,
};

export class Scatter {
  /** Fills `host` with a plot of `pane`, `height` CSS pixels high. Layers come later, by `setLayers`. */
  constructor(host, pane, height, { marks, causes }) {
    Object.assign(this, { host, pane, height, marks, causes, layers: [], raster: new Raster(), inSight: true });
    // Called with the layer and the number of a request that is clicked.
    this.onChoice = null;
    this.onView = () => this.refresh();
    pane.view.listeners.add(this.onView);
    this.build();
    listenToKeys(host, pane);
    new ResizeObserver(() => {
      // On paper, the width is that of the page.
      if (!document.documentElement.classList.contains("printing")) this.resize();
    }).observe(host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.refresh());
  }

  /** Draws `layers`, later ones on top: { name, colour, causes, points, details, warmupS }. `colour` names a colour of
   * style.css. `causes` does so for each cause, if points are to have the colour of their cause. `details` are the points
   * that can be shown in full. */
  setLayers(layers) {
    this.layers = layers;
    this.host.dataset.points = layers.reduce((sum, layer) => sum + layer.points.startS.length, 0);
    this.host.dataset.layers = layers.map((layer) => layer.name).join(" | ");
    this.refresh();
  }

  setInSight(inSight) {
    this.inSight = inSight;
    if (inSight && this.isStale) this.refresh();
  }

  refresh() {
    this.isStale = true;
    if (this.inSight) drawSoon(this);
  }

  /** Redraws the plot from its pane immediately. */
  draw() {
    this.isStale = false;
    if (this.log !== this.pane.log) this.build();
    this.note.hide();
    this.plot.batch(() => {
      this.plot.setScale("x", { min: this.pane.x[0], max: this.pane.x[1] });
      this.plot.setScale("y", { min: this.pane.y[0], max: this.pane.y[1] });
      this.plot.redraw(false, true);
    });
    this.host.dataset.x = this.pane.x.join(" ");
    this.host.dataset.y = this.pane.y.join(" ");
    this.host.dataset.scale = this.pane.log ? "log" : "linear";
  }

  build() {
    this.plot?.destroy();
    this.log = this.pane.log;
    this.plot = new globalThis.uPlot(this.options(), [[0, 1], [null, null]], this.host);
    this.note = new Note(this.plot.over, this.marks, this.causes);
    listenToPointer(this);
    openOnClick(this);
  }

  options() {
    const ink = () => this.colour("--ink-2");
    const axis = { stroke: ink, font: "11px system-ui, sans-serif", ticks: { show: false } };
    const grid = { stroke: () => this.colour("--grid"), width: 1 };
    const ms = (_, values) => values.map((v) => (v === null ? null : `${v < 1 ? +v.toPrecision(6) : v.toLocaleString("en")} ms`));
    return {
      width: Math.max(this.host.clientWidth, 120),
      height: this.height,
      padding: [8, 16, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: false, auto: false, min: this.pane.x[0], max: this.pane.x[1] },
        y: { auto: false, distr: this.log ? 3 : 1, min: this.pane.y[0], max: this.pane.y[1] },
      },
      series: [{}, { paths: () => null, points: { show: false } }],
      axes: [
        { ...axis, grid: { show: false }, size: 24, gap: 4, space: 60, values: (_, vs) => vs.map((v) => `${+v.toPrecision(8)} s`) },
        { ...axis, grid, size: 64, gap: 6, space: 28, values: ms, ...(this.log && ROUND_TICKS) },
      ],
      cursor: {
        points: { show: false },
        drag: { x: true, y: true, uni: 24, setScale: false },
        bind: {
          dblclick: () => () => this.pane.reset(),
          mousedown: (plot, target, handler) => (event) => event.shiftKey ? startPan(this, event) : handler(event),
        },
      },
      hooks: {
        drawAxes: [() => this.paint()],
        setSelect: [(plot) => this.zoomTo(plot.select)],
      },
    };
  }

  colour(name) {
    return getComputedStyle(this.host).getPropertyValue(name);
  }

  paint() {
    const { ctx } = this.plot;
    const frame = (this.frame = frameOf(this.plot.bbox, this.pane, this.plot.bbox.width / this.plot.over.clientWidth || 1));
    ctx.save();
    ctx.beginPath();
    ctx.rect(frame.left, frame.top, frame.width, frame.height);
    ctx.clip();
    shadeWarmup(ctx, frame, this.layers[0]?.warmupS ?? 0, this.colour("--shade"));
    const layers = this.layers.map(({ points, colour, causes }) => ({
      points,
      colour: this.colour(colour),
      causes: causes?.map((name) => (name ? this.colour(name) : null)),
    }));
    paintLayers(ctx, frame, this.raster, layers, this.colour("--failure"));
    // With a single variant, a drop has the colour of the cause that it leads to.
    const lost = this.colour("--cause-loss");
    paintDrops(ctx, frame, layers.length > 1 ? layers : layers.map((layer) => ({ ...layer, colour: lost })));
    paintDetailed(ctx, frame, this.layers, this.colour("--ink"));
    ctx.restore();
  }

  zoomTo(select) {
    if (select.width === 0 && select.height === 0) return;
    const { plot, pane } = this;
    const { left, top, width, height } = select;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    // A drag along one axis selects all of the other axis, which then stays as it is.
    const isPart = (size, whole) => size > 0 && size < whole - 1;
    pane.show(
      isPart(width, plot.over.clientWidth) ? [left, left + width].map((at) => plot.posToVal(at, "x")) : pane.x,
      isPart(height, plot.over.clientHeight) ? [top + height, top].map((at) => plot.posToVal(at, "y")) : pane.y,
    );
  }

  resize(width = Math.max(this.host.clientWidth, 120)) {
    if (width === this.plot.width) return;
    this.plot.setSize({ width, height: this.height });
  }

  /** The colours of the page, resolved, for each layer: its own, and one for each code of a cause if it is drawn by causes. */
  resolved() {
    return this.layers.map((layer) => ({
      ...layer,
      colour: this.colour(layer.colour).trim(),
      causes: layer.causes?.map((name) => (name ? this.colour(name).trim() : null)),
    }));
  }
}

function shadeWarmup(context, frame, warmupS, colour) {
  const width = (warmupS - frame.xFrom) * frame.xScale;
  if (width <= 0) return;
  context.fillStyle = colour;
  context.fillRect(frame.left, frame.top, width, frame.height);
}

/** Hover, wheel and pinch. The wheel scrolls the page unless the plot has the focus or Ctrl is held. */
function listenToPointer(scatter) {
  const { plot, pane, host, note } = scatter;
  const { over } = plot;
  const ratio = () => scatter.frame.ratio;
  const hitAt = (event) => {
    const box = over.getBoundingClientRect();
    const x = (event.clientX - box.left) * ratio() + plot.bbox.left;
    const y = (event.clientY - box.top) * ratio() + plot.bbox.top;
    return nearest(scatter.layers, scatter.frame, x, y);
  };
  over.addEventListener("mousemove", (event) => {
    if (!scatter.frame || event.buttons !== 0) return note.hide();
    const hit = hitAt(event);
    if (!hit) return note.hide();
    note.show(hit, (hit.x - plot.bbox.left) / ratio(), (hit.y - plot.bbox.top) / ratio());
  });
  let pressed = [0, 0];
  over.addEventListener("mousedown", (event) => (pressed = [event.clientX, event.clientY]));
  over.addEventListener("click", (event) => {
    // A drag ends with a click, too. Requests that the page itself has in full are opened by details.js.
    const moved = Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]);
    const hit = scatter.frame && moved < 4 && !detailUnder(scatter, event) ? hitAt(event) : null;
    if (hit) scatter.onChoice?.(hit.layer, hit.layer.points.request[hit.index]);
  });
  over.addEventListener("mouseleave", () => note.hide());
  over.addEventListener("mousedown", () => host.focus({ preventScroll: true }));
  over.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== host) return;
      event.preventDefault();
      const box = over.getBoundingClientRect();
      const share = { x: (event.clientX - box.left) / box.width, y: 1 - (event.clientY - box.top) / box.height };
      const axes = event.shiftKey ? { x: false, y: true } : { x: true, y: false };
      // Shift turns the wheel sideways in some browsers.
      const turn = event.deltaY || event.deltaX;
      pane.zoom(1.0015 ** Math.max(-300, Math.min(300, turn)), share, axes);
    },
    { passive: false },
  );
}

/** Shift-drag moves the visible part. */
function startPan(scatter, event) {
  const { over } = scatter.plot;
  let { clientX, clientY } = event;
  const move = (moved) => {
    scatter.pane.pan((clientX - moved.clientX) / over.clientWidth, (moved.clientY - clientY) / over.clientHeight);
    ({ clientX, clientY } = moved);
  };
  const stop = () => {
    removeEventListener("mousemove", move);
    removeEventListener("mouseup", stop);
  };
  addEventListener("mousemove", move);
  addEventListener("mouseup", stop);
}

const MIDDLE = { x: 0.5, y: 0.5 };

const KEYS = {
  "+": (pane) => pane.zoom(0.7, MIDDLE),
  "=": (pane) => pane.zoom(0.7, MIDDLE),
  "-": (pane) => pane.zoom(1 / 0.7, MIDDLE),
  ArrowLeft: (pane) => pane.pan(-0.1, 0),
  ArrowRight: (pane) => pane.pan(0.1, 0),
  ArrowUp: (pane) => pane.pan(0, 0.1),
  ArrowDown: (pane) => pane.pan(0, -0.1),
  0: (pane) => pane.reset(),
  Escape: (pane) => pane.reset(),
};

function listenToKeys(host, pane) {
  host.addEventListener("keydown", (event) => {
    const action = KEYS[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action(pane);
  });
}
