/* The reader's choices in the address, so that a link or a reload shows the same page.
 *
 * The part after # has words separated by &: `condition-2`, the section to scroll to, and choices such as
 * `statistic=p99` and `zoom-2=1.5_3`. A choice for a condition ends in the condition's number. It draws nothing; switches.js
 * and page.js read and keep choices. */

function readAddress() {
  const words = location.hash.slice(1).split("&");
  const section = words.find((word) => word.startsWith("condition-")) ?? null;
  return { section, choices: new URLSearchParams(words.filter((word) => word !== section).join("&")) };
}

function writeAddress({ section, choices }) {
  const words = [section, choices.toString()].filter((word) => word);
  history.replaceState(null, "", `#${words.join("&")}`);
}

/** The choice of this name in the address, if it is one of `allowed`; otherwise null. */
export function chosen(name, allowed) {
  const choice = readAddress().choices.get(name);
  return allowed.includes(choice) ? choice : null;
}

/** The choice of this name in the address, which may be anything; null if there is none. */
export function choiceInAddress(name) {
  return readAddress().choices.get(name);
}

/** Keeps a choice; null removes it. */
export function keepChoice(name, value) {
  const address = readAddress();
  if (address.choices.get(name) === value) return;
  if (value === null) address.choices.delete(name);
  else address.choices.set(name, value);
  writeAddress(address);
}

/** Keeps the choices when a link leads to a condition, and goes to the condition that the address names. */
export function followConditions() {
  const goTo = (section) => document.getElementById(section)?.scrollIntoView();
  document.addEventListener("click", (event) => {
    const section = event.target.closest?.("a[href^='#condition-']")?.getAttribute("href").slice(1);
    if (!section || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    writeAddress({ ...readAddress(), section });
    goTo(section);
    document.getElementById(section)?.focus({ preventScroll: true });
  });
  const { section, choices } = readAddress();
  // If choices follow it, the browser does not recognize the section.
  if (section && choices.size > 0) goTo(section);
}
