/* What a reader asks of `squall view` beyond the points: the packets of the visible time, below the plots of a condition.
 *
 * The server's answers become text, never markup. details.js asks for requests in full. */

import { say } from "./data.js";
import { ask, visibleTime } from "./live.js";

function made(tag, words) {
  const element = document.createElement(tag);
  element.textContent = words;
  return element;
}

/** The place below the plots of a condition where packets are shown. */
export class Inspector {
  constructor(source) {
    this.source = source;
    this.element = document.createElement("div");
    this.element.className = "inspected";
    this.packets = this.element.appendChild(document.createElement("details"));
    this.packets.append(made("summary", say("Packets in the visible time")), document.createElement("div"));
    this.packets.addEventListener("toggle", () => this.listPackets());
    this.asked = 0;
  }

  /** Lists the packets of `trials` in the visible time of `pane`, now and whenever the list is opened. */
  follow(trials, names, pane) {
    Object.assign(this, { trials, names, pane });
    this.listPackets();
  }

  async listPackets() {
    if (!this.packets.open || !this.pane) return;
    const asked = (this.asked += 1);
    const { trials, names } = this;
    const place = this.packets.lastElementChild;
    try {
      const lists = await Promise.all(trials.map((trial) => ask(this.source, trial, `packets?${visibleTime(this.pane)}`)));
      if (asked !== this.asked) return;
      place.replaceChildren(...lists.flatMap((list, n) => [made("h3", names[n]), made("p", summaryOf(list)), tableOf(list)]));
    } catch (error) {
      place.replaceChildren(made("p", error.message));
    }
  }
}

function summaryOf({ total, dropped, retransmitted, is_complete: isComplete, packets }) {
  const count = (n) => n.toLocaleString("en");
  const all = say("{#all} packets, {#dropped} dropped, {#again} sent again by TCP.", {
    all: count(total),
    dropped: count(dropped),
    again: count(retransmitted),
  });
  if (isComplete) return all;
  const first = say("Zoom in to see each; below are the first {#n} of the dropped and the repeated ones.", { n: count(packets.length) });
  return `${all} ${first}`;
}

const PACKET_COLUMNS = {
  "time": (packet) => `${(packet.arrived_us / 1e6).toFixed(6)} s`,
  "hop": (packet) => packet.hop,
  "direction": (packet) => packet.direction,
  "number": (packet) => packet.index,
  "flow": (packet) => packet.flow,
  "kind": (packet) => packet.class,
  "bytes": (packet) => packet.length_bytes,
  "fate": (packet) => packet.fate + (packet.is_retransmission ? `, ${say("sent again")}` : ""),
};

function tableOf({ packets }) {
  const table = document.createElement("table");
  table.className = "numbers";
  const titles = table.createTHead().insertRow();
  for (const title of Object.keys(PACKET_COLUMNS)) titles.append(made("th", say(title)));
  const body = table.createTBody();
  for (const packet of packets) {
    const row = body.insertRow();
    for (const [title, cell] of Object.entries(PACKET_COLUMNS)) {
      const field = row.insertCell();
      field.textContent = cell(packet);
      field.dataset.label = say(title);
    }
  }
  return table;
}
