// The page comes to life: which kernel is shown, what buttons lead to, the theme.

import { Charts } from "./charts.js";
import { readProfile } from "./model.js";
import { Timeline } from "./timeline.js";

const facts = JSON.parse(document.getElementById("facts").textContent);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function setTheme(name) {
  document.documentElement.dataset.theme = name;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Paper is light, narrower than most screens, and cannot be clicked: what is said of the figures stands open. */
function printWell(repaint) {
  const root = document.documentElement.dataset;
  let theme, closed = [];
  window.addEventListener("beforeprint", () => {
    theme = root.theme;
    closed = all("details.verdict, details.quiet, details.row.hot").filter((each) => !each.open);
    for (const each of closed) each.open = true;
    root.printing = "";
    setTheme("light");
    repaint();
  });
  window.addEventListener("afterprint", () => {
    for (const each of closed) each.open = false;
    delete root.printing;
    if (theme) setTheme(theme);
    else delete root.theme;
    repaint();
  });
}

function showKernel(number) {
  for (const article of all("article.of-kernel")) {
    article.hidden = Number(article.dataset.kernel) !== number;
    article.querySelector("section.source").id = article.hidden ? "" : "source"; // where the head of the page leads
  }
  for (const button of all("button.kernel")) button.setAttribute("aria-pressed", String(Number(button.dataset.kernel) === number));
}

/** Open a line of the source, and bring it into view. */
function goToLine(file, line) {
  const article = all("article.of-kernel").find((each) => !each.hidden);
  const places = article ? all("[data-line]", article).filter((each) => each.matches(".row, .bare") && each.dataset.line === String(line)) : [];
  const row = places.find((each) => each.dataset.file === file) || places[0];
  if (!row) return;
  if (row.tagName === "DETAILS") row.open = true;
  for (const other of all(".marked")) other.classList.remove("marked");
  row.classList.add("marked");
  row.scrollIntoView({ block: "center" });
  (row.querySelector("summary") || row).focus({ preventScroll: true });
}

/** Heads of the source stay below the page's own, which has two lines on a narrow screen. */
function placeHeads() {
  document.documentElement.style.setProperty("--top", `${document.querySelector("header.top").offsetHeight - 1}px`);
}

async function start() {
  showKernel(0);
  placeHeads();
  window.addEventListener("resize", placeHeads);
  const state = { kernel: 0, timeline: null, charts: null };
  const repaint = () => {
    state.timeline?.repaint();
    state.timeline?.resize();
    state.timeline?.paint();
    state.charts?.redraw();
  };
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(isDark() ? "light" : "dark");
    repaint();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  printWell(repaint);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const { at, level, line, file, kernel } = button.dataset;
    if (button.matches(".go-line")) goToLine(file, Number(line));
    if (button.matches(".go-cta")) state.timeline?.goTo(level, Number(at), Number(line));
    if (button.matches(".go-search") && state.timeline) {
      state.timeline.search.find(`:${line}`);
      state.timeline.search.next(1);
      state.timeline.comeIntoView();
    }
    if (button.matches("button.kernel")) {
      state.kernel = Number(kernel);
      showKernel(state.kernel);
      state.charts?.show(state.kernel);
      state.timeline?.showKernel(state.kernel);
    }
  });
  const place = document.getElementById("timeline-view");
  if (place) {
    const profile = await readProfile(facts, document.getElementById("data").textContent);
    state.timeline = new Timeline(place, profile, { onLine: goToLine });
    const charts = document.getElementById("charts");
    if (charts) state.charts = new Charts(charts, profile);
    state.charts?.show(0);
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
      if (Math.abs(window.innerWidth - width) < 40) return;
      width = window.innerWidth;
      state.charts?.redraw();
    });
  }
  window.profscope = state; // for whoever asks from the console, and for tests
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  document.documentElement.dataset.ready = "failed";
  const text = "This browser could not draw the timeline (it needs DecompressionStream: Chrome 103, Firefox 113, Safari 16.4, or newer).";
  document.getElementById("timeline-view")?.append(text);
  console.error(error);
});
