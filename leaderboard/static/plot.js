// Charts that a script draws: scatters of pairs and curves over time, on logarithmic axes.
"use strict";

const plot = (() => {
  const GAP_UNIT = 1e-4; // distances from the best below 0.01 % are drawn linearly
  const MOST_DOTS = 2000; // more are drawn as one path, without a tooltip each

  const make = (name, attributes = {}, ...content) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) {
      made.setAttribute(key, typeof value === "number" ? Math.round(value * 10) / 10 : value);
    }
    made.append(...content);
    return made;
  };
  const text = (words, x, y, attributes) => make("text", { x, y, ...attributes }, words);

  // ---------------------------------------------------------------- scales: from values to [0, 1], with ticks

  const scale = (low, high, forward, ticks) => {
    const [from, to] = [forward(low), forward(high)];
    const at = (value) => (forward(Math.min(Math.max(value, low), high)) - from) / (to - from || 1);
    return { at, ticks: ticks.filter(([value]) => low <= value && value <= high), low, high };
  };

  // Up to seven round numbers from low to high.
  const roundValues = (low, high) => {
    const power = 10 ** Math.floor(Math.log10((high - low) / 7));
    const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= (high - low) / 7);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
  };

  // Logarithmic, for positive values.
  const logarithmic = (values, label) => {
    const low = Math.min(...values);
    const high = Math.max(...values);
    if (high / low < 10) { // 1, 2 and 5 are too far apart here
      const [from, to] = [low / 1.2, high * 1.2];
      return scale(from, to, Math.log10, roundValues(from, to).map((value) => [value, label(value)]));
    }
    const first = Math.floor(Math.log10(low));
    const last = Math.ceil(Math.log10(high));
    const every = Math.ceil((last - first + 1) / 7);
    const steps = last - first > 3 ? [1] : [1, 2, 5];
    const ticks = [];
    for (let power = first; power <= last; power += every) {
      for (const step of steps) ticks.push([step * 10 ** power, label(step * 10 ** power)]);
    }
    return scale(low / 1.2, high * 1.2, Math.log10, ticks);
  };

  // Distances from the best known value: logarithmic, and 0 is at the end.
  const gaps = (values) => {
    const high = Math.max(1e-3, ...values) * 1.3;
    const ticks = [[0, "best"]];
    const near = high < 0.1 ? [1e-3, 3e-3, 1e-2, 3e-2] : [1e-3, 1e-2, 0.1, 1];
    for (const value of near) ticks.push([value, `${100 * value} %`]);
    const every = Math.max(1, Math.ceil(Math.log10(high + 1) / 5));
    for (let power = every; 10 ** power - 1 <= high; power += every) ticks.push([10 ** power - 1, `${amount(10 ** power)}×`]);
    return scale(0, high, (value) => Math.log10(1 + value / GAP_UNIT), ticks);
  };

  const amount = (value) =>
    value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3)
      ? value.toExponential(0).replace("e+", "e")
      : value.toLocaleString("en", { maximumSignificantDigits: 3 });
  const seconds = (value) => `${amount(value)} s`;

  // ---------------------------------------------------------------- frames

  const MARGIN = { left: 58, right: 14, top: 26, foot: 44 };

  const frame = (width, height, x, y, words) => {
    const { left, right, top, foot } = MARGIN;
    const inner = width - left - right;
    const tall = height - top - foot;
    const place = (a, b) => [left + inner * x.at(a), top + tall * (1 - y.at(b))];
    const parts = [];
    for (const [value, label] of y.ticks) {
      const [, level] = place(x.low, value);
      parts.push(make("line", { class: "grid", x1: left, x2: left + inner, y1: level, y2: level }));
      parts.push(text(label, left - 8, level + 4, { class: "tick", "text-anchor": "end" }));
    }
    const room = 46; // pixels that a label on the horizontal axis needs
    let last = -Infinity;
    parts.push(make("line", { class: "base", x1: left, x2: left + inner, y1: top + tall, y2: top + tall }));
    for (const [value, label] of x.ticks) {
      const [across] = place(value, y.low);
      parts.push(make("line", { class: "base", x1: across, x2: across, y1: top + tall, y2: top + tall + 4 }));
      if (across - last < room) continue;
      parts.push(text(label, across, top + tall + 18, { class: "tick", "text-anchor": "middle" }));
      last = across;
    }
    parts.push(text(words.x, left + inner / 2, height - 6, { class: "axis", "text-anchor": "middle" }));
    parts.push(text(words.y, 0, 12, { class: "axis" }));
    const image = { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words.label };
    return { drawing: make("svg", image, ...parts), place };
  };

  // A dot per pair {x, y, title, better, pick}; `better` is "first", "second" or "tie".
  const scatter = (pairs, axis, width, words) => {
    const { drawing, place } = frame(width, Math.min(width, 440), axis, axis, words);
    const [x1, y1] = place(axis.low, axis.low);
    const [x2, y2] = place(axis.high, axis.high);
    drawing.append(make("line", { class: "diagonal", x1, y1, x2, y2 }));
    if (pairs.length > MOST_DOTS) {
      for (const better of ["tie", "first", "second"]) {
        const own = pairs.filter((pair) => pair.better === better);
        const path = own.map((pair) => `M${place(pair.x, pair.y).map((at) => at.toFixed(1)).join(" ")}h0`);
        drawing.append(make("path", { class: `dust ${better}`, d: path.join("") }));
      }
      return drawing;
    }
    for (const pair of pairs) {
      const [cx, cy] = place(pair.x, pair.y);
      const dot = make("circle", { class: `dot ${pair.better}`, cx, cy, r: 4 }, make("title", {}, pair.title));
      if (pair.pick) dot.addEventListener("click", pair.pick);
      drawing.append(dot);
    }
    return drawing;
  };

  // A step curve per line {points: [[x, y]], title}.
  const curves = (lines, x, y, width, words) => {
    const { drawing, place } = frame(width, 300, x, y, words);
    for (const { points, title } of lines) {
      const places = points.map(([a, b]) => place(a, b));
      const path = places.map(([a, b], number) => (number ? `H${a.toFixed(1)}V${b.toFixed(1)}` : `M${a.toFixed(1)} ${b.toFixed(1)}`));
      const end = place(x.high, y.low)[0].toFixed(1);
      const line = make("path", { d: `${path.join("")}H${end}` });
      drawing.append(make("g", { class: "series s1" }, make("title", {}, title), line));
    }
    return drawing;
  };

  return { logarithmic, gaps, amount, seconds, scatter, curves };
})();
