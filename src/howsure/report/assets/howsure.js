// What pages do beyond being read. Nothing here is needed to read them.
"use strict";

// Tokens: one stop for Tab, arrow keys from token to token.
document.addEventListener("keydown", (event) => {
  const token = event.target.closest?.(".tok[tabindex]");
  if (!token) return;
  const sibling = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
  const all = token.parentElement.querySelectorAll(":scope > .tok");
  const next = sibling ? token[sibling] : { Home: all[0], End: all[all.length - 1] }[event.key];
  if (!next?.classList.contains("tok")) return;
  event.preventDefault();
  token.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

// A tip that would leave the window on the right is drawn to the left instead.
for (const kind of ["mouseover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const tip = event.target.closest?.(".tok")?.querySelector(".tip");
    if (!tip) return;
    tip.classList.remove("leftwards");
    if (tip.getBoundingClientRect().right > document.documentElement.clientWidth) tip.classList.add("leftwards");
  });
}

// A row of steps of which one is shown. Its address ends in #<id>=<step>, so that a step can be shared.
const setUp = (stepper) => {
  const steps = [...stepper.querySelectorAll(":scope > .step")];
  const controls = stepper.querySelector(":scope > .controls");
  if (!controls || steps.length === 0) return;
  const slider = controls.querySelector("input[type=range]");
  const place = controls.querySelector(".place");
  let timer = null;
  const show = (wanted, share = true) => {
    const at = Math.max(0, Math.min(steps.length - 1, wanted));
    steps.forEach((step, index) => { step.hidden = index !== at; });
    slider.value = String(at);
    slider.setAttribute("aria-valuetext", `${at + 1} of ${steps.length}`);
    if (place) place.textContent = `${at + 1} of ${steps.length}`;
    if (share && stepper.id) history.replaceState(null, "", `#${stepper.id}=${at + 1}`);
    stepper.dataset.at = String(at);
  };
  const at = () => Number(stepper.dataset.at || 0);
  const stop = () => { clearInterval(timer); timer = null; const play = controls.querySelector("[data-do=play]"); if (play) play.textContent = "play"; };
  const acts = {
    first: () => show(0),
    previous: () => show(at() - 1),
    next: () => show(at() + 1),
    last: () => show(steps.length - 1),
    play: () => {
      if (timer) return stop();
      controls.querySelector("[data-do=play]").textContent = "pause";
      if (at() === steps.length - 1) show(0);
      timer = setInterval(() => { at() === steps.length - 1 ? stop() : show(at() + 1, false); }, 700);
    },
  };
  controls.hidden = false;
  controls.addEventListener("click", (event) => {
    const what = event.target.dataset?.do;
    if (!acts[what]) return;
    if (what !== "play") stop();
    acts[what]();
  });
  slider.max = String(steps.length - 1);
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  stepper.addEventListener("keydown", (event) => {
    if (event.target === slider || event.target.closest(".tok")) return;
    const what = { ArrowLeft: "previous", ArrowRight: "next", Home: "first", End: "last" }[event.key];
    if (!what) return;
    event.preventDefault();
    stop();
    acts[what]();
    if (event.target.closest(".step")) slider.focus(); // what had the focus is hidden now
  });
  const named = stepper.id && location.hash.startsWith(`#${stepper.id}=`) ? Number(location.hash.split("=")[1]) : 1;
  show(Number.isInteger(named) ? named - 1 : 0, false);
};
document.querySelectorAll(".stepper").forEach(setUp);
document.addEventListener("hs:added", (event) => event.target.querySelectorAll(".stepper").forEach(setUp));
