// What keys and pointers do to the timeline.

import { AXIS, GUTTER, toTime } from "./draw.js";

const PAN_MS = 700; // for as much as is seen
const ZOOM_MS = 350; // for a factor of e
const FRAME_MS = 16;

export function listen(timeline) {
  pointOn(timeline);
  jumpOn(timeline);
  typeOn(timeline);
}

function pointOn(timeline) {
  const { canvas } = timeline;
  const place = (event) => [event.offsetX, event.offsetY];
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = place(event);
    canvas.setPointerCapture(event.pointerId);
    drag = { x, y, from: timeline.from, to: timeline.to, scroll: timeline.scroll, moved: false, select: event.shiftKey || y < AXIS };
    if (drag.select) timeline.range = [toTime(timeline, x), toTime(timeline, x)];
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    timeline.hoverY = y;
    timeline.hoverX = x;
    if (!drag) return timeline.hoverAt(x, y);
    drag.moved ||= Math.hypot(x - drag.x, y - drag.y) > 3;
    if (drag.select) timeline.range = [timeline.range[0], toTime(timeline, Math.max(GUTTER, x))];
    else if (drag.moved) {
      const by = ((drag.x - x) / (timeline.width - GUTTER)) * (drag.to - drag.from);
      timeline.setWindow(drag.from + by, drag.to + by);
      timeline.scrollTo(drag.scroll + drag.y - y);
    }
    timeline.changed();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { moved, select } = drag;
    drag = null;
    if (select && moved) return timeline.panel.show();
    timeline.range = null;
    timeline.choose(moved ? timeline.chosen : timeline.pick(...place(event)));
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", () => timeline.hoverAt(-1, -1));
  canvas.addEventListener("dblclick", (event) => {
    const picked = timeline.pick(...place(event));
    if (picked) timeline.into(picked.row, picked.item);
  });
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      event.preventDefault();
      timeline.zoom(Math.exp(event.deltaY * 0.0022), Math.max(GUTTER, event.offsetX), event.offsetY);
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      timeline.pan(event.deltaX / timeline.width);
    } else {
      const before = timeline.scroll;
      timeline.scrollTo(timeline.scroll + event.deltaY);
      if (timeline.scroll !== before) event.preventDefault();
    }
  }, { passive: false });
}

/** The minimap leads to where it is pressed. */
function jumpOn(timeline) {
  const jump = (event) => {
    if (!(event.buttons & 1)) return;
    const { level } = timeline;
    const time = level.from + ((event.offsetX - GUTTER) / (timeline.width - GUTTER)) * (level.to - level.from);
    const size = timeline.to - timeline.from;
    timeline.setWindow(time - size / 2, time + size / 2);
  };
  timeline.minimap.addEventListener("pointerdown", jump);
  timeline.minimap.addEventListener("pointermove", jump);
}

function typeOn(timeline) {
  const { canvas } = timeline;
  const held = new Set();
  let frame;
  const once = {
    f: () => timeline.fit(), escape: () => timeline.out(), backspace: () => timeline.out(),
    enter: () => timeline.chosen && timeline.into(timeline.chosen.row, timeline.chosen.item),
    "/": () => timeline.search.field.focus(), n: (event) => timeline.search.next(event.shiftKey ? -1 : 1),
    arrowleft: () => timeline.step(-1, 0), arrowright: () => timeline.step(1, 0),
    arrowup: () => timeline.step(0, -1), arrowdown: () => timeline.step(0, 1),
  };
  /** While keys are held: a frame's part of zooming and panning. */
  const move = (before, now) => {
    frame = undefined;
    const passed = Math.min(50, now - before || FRAME_MS);
    const x = timeline.hoverX > GUTTER ? timeline.hoverX : (timeline.width + GUTTER) / 2;
    if (held.has("a")) timeline.pan(-passed / PAN_MS);
    if (held.has("d")) timeline.pan(passed / PAN_MS);
    if (held.has("w")) timeline.zoom(Math.exp(-passed / ZOOM_MS), x);
    if (held.has("s")) timeline.zoom(Math.exp(passed / ZOOM_MS), x);
    if (held.size) frame = requestAnimationFrame((next) => move(now, next));
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (!once[key] && !"wasd".includes(key)) return;
    event.preventDefault();
    if (once[key]) return once[key](event);
    held.add(key);
    frame ??= requestAnimationFrame((now) => move(now, now));
  });
  canvas.addEventListener("keyup", (event) => held.delete(event.key.toLowerCase()));
  canvas.addEventListener("blur", () => held.clear());
}
