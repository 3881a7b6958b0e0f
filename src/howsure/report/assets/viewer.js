// The viewer's pages work without this. With it, tables change in place, and what is being written is seen as it comes.
"use strict";

const main = document.getElementById("main");
const READING_MS = 300, LOST_MS = 5000, TYPING_MS = 250;

// -- putting pieces of a fetched page in place ------------------------------------------------------------------------

const parsed = (text) => new DOMParser().parseFromString(text, "text/html");
const named = (name, within = document) => within.querySelector(`[data-swap="${CSS.escape(name)}"]`);

// Focus, the place of the cursor and the choice of A and B outlive the change.
const keeping = (change) => {
  const focused = document.activeElement, id = focused?.id;
  const typed = focused?.matches?.("input:not([type=radio])") ? [focused.value, focused.selectionStart, focused.selectionEnd] : null;
  const chosen = [...document.querySelectorAll("input[type=radio]:checked")].map((one) => [one.name, one.value]);
  change();
  for (const radio of document.querySelectorAll("input[type=radio]")) {
    if (chosen.some(([name, value]) => name === radio.name && value === radio.value)) radio.checked = true;
  }
  if (!id || document.activeElement === focused) return;
  const again = document.getElementById(id) || document.querySelector(".scroll[role=region]");
  again?.focus({ preventScroll: true });
  if (typed && again?.id === id) { again.value = typed[0]; again.setSelectionRange?.(typed[1], typed[2]); }
};

const swap = (fetched) => keeping(() => {
  const grid = document.getElementById("grid"), other = fetched.getElementById("grid");
  if (grid && other && grid.dataset.columns !== other.dataset.columns) grid.replaceWith(document.adoptNode(other));
  for (const piece of [...fetched.querySelectorAll("[data-swap]")]) {
    const here = named(piece.dataset.swap);
    if (!here || here.innerHTML === piece.innerHTML) continue;
    here.replaceChildren(...piece.childNodes);
    here.dispatchEvent(new Event("hs:added", { bubbles: true }));
  }
});

const INPUTS = "#q, tr.filters input, tr.filters select";
const written = () => new Map([...document.querySelectorAll(INPUTS)].map((one) => [one.id, one.value]));

// The inputs show what the address says, except the one that somebody is typing in, and those that were changed since
// the question was asked: what was typed meanwhile is about to be asked for.
const fill = (fetched, before) => {
  for (const other of fetched.querySelectorAll(INPUTS)) {
    const here = document.getElementById(other.id);
    if (!here || here === document.activeElement && here.matches("input")) continue;
    if (before.has(here.id) && before.get(here.id) !== here.value) continue;
    if (here.matches("select")) here.replaceChildren(...[...other.options].map((one) => one.cloneNode(true)));
    here.value = other.value;
  }
};

// -- fetching ---------------------------------------------------------------------------------------------------------

const lost = document.getElementById("lost");
const say = (text) => { lost.hidden = !text; if (lost.textContent !== text) lost.textContent = text; };

const get = async (address, signal) => {
  const answer = await fetch(address, { signal, credentials: "same-origin" });
  if (answer.status === 401) throw new Error("The viewer asks for its token again: open the address that it printed.");
  return answer;
};

// The sentence of a page that says why there is none.
const told = (page) => page.querySelector("#main > p:not(#lost)")?.textContent || "The viewer gave no answer that can be shown.";

let asking = null;
const showTable = async (everything = false) => {
  asking?.abort();
  const mine = asking = new AbortController(), before = written();
  const region = document.getElementById("grid");
  region?.setAttribute("aria-busy", "true");
  try {
    const answer = await get(everything ? location.href : `/table${location.search}`, mine.signal);
    const fetched = parsed(await answer.text());
    if (mine !== asking) return;
    if (!fetched.getElementById("grid")) throw new Error(told(fetched));
    fill(fetched, before);
    swap(fetched);
    if (everything) Object.assign(main.dataset, { ...fetched.getElementById("main").dataset });
    say("");
  } catch (error) {
    if (error.name !== "AbortError") say(error.name === "TypeError" ? "The viewer does not answer; it may have been ended." : error.message);
  } finally {
    if (mine === asking) document.getElementById("grid")?.removeAttribute("aria-busy");
  }
};

// Plots of a large run come after its table, when all of it is read.
const showLater = async () => {
  const place = document.querySelector("[data-later]");
  if (!place || place.dataset.asked) return;
  place.dataset.asked = "yes";
  try {
    const answer = await get(place.dataset.later);
    swap(parsed(await answer.text()));
  } catch { delete place.dataset.asked; }
};

// -- asking for other rows --------------------------------------------------------------------------------------------

const go = (address, replace = false) => {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  return showTable();
};

const wanted = (form) => {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (String(value).trim()) fields.append(name, value);
  return `${location.pathname}?${fields}`;
};

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-in-place]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  if (link.id === "clear") for (const input of document.querySelectorAll(INPUTS)) input.value = "";
  go(link.getAttribute("href").split("#")[0]).then(() => {
    if (link.id.startsWith("page.")) document.getElementById("grid")?.scrollIntoView({ block: "start" });
  });
});

let typing = null, typedIn = null;
const ask = (form, field) => {
  clearTimeout(typing);
  const again = typedIn === field; // one step back for one thing typed, however many letters
  typedIn = field;
  go(wanted(form), again);
};

document.addEventListener("submit", (event) => {
  if (event.target.id !== "filters") return;
  event.preventDefault();
  ask(event.target, null);
});
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (form?.id !== "filters" || event.target.matches("select") || event.isComposing) return;
  clearTimeout(typing);
  typing = setTimeout(() => ask(form, event.target.id), TYPING_MS);
});
document.addEventListener("change", (event) => {
  if (event.target.form?.id === "filters" && event.target.matches("select")) ask(event.target.form, null);
});
// A and B stand in the address, so that they outlive a change of page, of order and of filters.
document.addEventListener("change", (event) => {
  if (event.target.form?.id !== "compare" || !event.target.matches("input[type=radio]")) return;
  const fields = new URLSearchParams(location.search);
  fields.set(event.target.name, event.target.value);
  go(`${location.pathname}?${fields}`, true);
});
document.addEventListener("focusout", () => { typedIn = null; });

let shown = location.pathname + location.search;
addEventListener("popstate", () => {
  const now = location.pathname + location.search;
  if (document.getElementById("grid") && now !== shown) { document.activeElement?.blur?.(); showTable(); }
  shown = now;
});
const remember = () => { shown = location.pathname + location.search; };
for (const name of ["pushState", "replaceState"]) {
  const plain = history[name].bind(history);
  history[name] = (...given) => { plain(...given); remember(); };
}

// -- what is still being written --------------------------------------------------------------------------------------

let waiting = null;
const again = (ms) => { clearTimeout(waiting); if (ms) waiting = setTimeout(look, ms); };

const look = async () => {
  if (!main?.dataset.live) return;
  if (document.visibilityState !== "visible") return; // asked again as soon as it is
  try {
    const address = new URL(main.dataset.live, location.origin);
    address.searchParams.set("seen", main.dataset.seen || "");
    const answer = await get(address);
    if (!answer.headers.get("content-type")?.includes("json")) throw new Error(told(parsed(await answer.text())));
    const found = await answer.json();
    say("");
    if (found.html !== undefined) swap(parsed(`<div data-swap="live">${found.html}</div>`));
    if (found.changed) {
      main.dataset.seen = found.version;
      const finished = found.status !== undefined && (found.status !== main.dataset.status || Number(main.dataset.poll) === READING_MS);
      await showTable(finished && found.complete);
    }
    if (found.complete) showLater();
    again(found.complete ? Number(main.dataset.poll) : READING_MS);
  } catch (error) {
    say(error.name === "TypeError" ? "The viewer does not answer; it may have been ended. Asking again …" : error.message);
    again(LOST_MS);
  }
};

if (main?.dataset.live) {
  const ms = Number(main.dataset.poll);
  document.addEventListener("visibilitychange", () => { if (Number(main.dataset.poll)) again(1); });
  if (ms) again(ms);
  if (ms !== READING_MS) showLater();
}
