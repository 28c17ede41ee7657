"use strict";
document.querySelectorAll("svg[data-plot]").forEach(svg => {
  var plot = svg.dataset.plot.split(" ").map(Number), left = plot[0], right = plot[1], bottom = plot[3];
  var figure = svg.closest("figure"), box = svg.parentNode, ns = "http://www.w3.org/2000/svg";
  var time = svg.dataset.time ? svg.dataset.time.split(" ").map(Number) : null, span = time, from = null, at = -1;
  var series = Array.from(svg.querySelectorAll("g[data-s]")).map(g => {
    var line = g.querySelector("polyline"), points = (line ? line.getAttribute("points") : g.dataset.p).split(" ").filter(Boolean).map(p => p.split(",").map(Number));
    return { g: g, all: points, points: points, x: g.dataset.x.split("|"), y: g.dataset.y.split("|") };
  });
  var cross = make(svg, "line", { class: "cross", y1: plot[2], y2: bottom, visibility: "hidden" });
  var chosen = make(svg, "rect", { class: "chosen", y: plot[2], height: bottom - plot[2], visibility: "hidden" });
  var tip = document.createElement("div");
  tip.className = "tip"; tip.hidden = true; tip.setAttribute("role", "status"); box.appendChild(tip);
  svg.tabIndex = 0; svg.setAttribute("role", "group");
  function set(on, attributes) {
    Object.keys(attributes).forEach(key => { on.setAttribute(key, attributes[key]); });
    return on;
  }
  function make(parent, name, attributes) {
    return set(parent.appendChild(document.createElementNS(ns, name)), attributes);
  }
  function place(event) {
    var rect = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    return [(event.clientX - rect.left) * view.width / rect.width, (event.clientY - rect.top) * view.height / rect.height];
  }
  function inside(p) { return p[0] >= left - 0.5 && p[0] <= right + 0.5; }
  function shown() { return series.filter(one => !one.g.classList.contains("off")); }
  function places() {
    var xs = new Set();
    shown().forEach(one => { one.points.filter(inside).forEach(p => { xs.add(p[0]); }); });
    return Array.from(xs).sort((a, b) => a - b);
  }
  function show(x) {
    var head = null, rows = [];
    shown().forEach(one => {
      one.points.forEach((p, n) => {
        if (Math.abs(p[0] - x) > 0.06 || !inside(p)) return;
        head = head || one.x[n];
        rows.push([one, one.y[n], one.x[n]]);
      });
    });
    tip.textContent = "";
    cross.setAttribute("visibility", rows.length ? "visible" : "hidden");
    tip.hidden = !rows.length;
    if (!rows.length) return;
    set(cross, { x1: x, x2: x });
    var title = tip.appendChild(document.createElement("b"));
    title.textContent = head + (svg.dataset.time || /^[\d.]/.test(head) && !/[×=]/.test(head) ? " " + svg.dataset.x : "");
    rows.forEach(row => {
      var line = tip.appendChild(document.createElement("div")), key = document.createElement("span");
      key.className = "key " + row[0].g.getAttribute("class");
      line.append(key, (row[0].g.dataset.name + " " + row[1]).trim());
    });
    var share = x / svg.viewBox.baseVal.width * 100;
    tip.style.left = share < 55 ? "calc(" + share + "% + 12px)" : "auto";
    tip.style.right = share < 55 ? "auto" : "calc(" + (100 - share) + "% + 12px)";
  }
  function hide() { tip.hidden = true; cross.setAttribute("visibility", "hidden"); at = -1; }
  function nearest(x) {
    return places().reduce((best, one) => best === null || Math.abs(one - x) < Math.abs(best - x) ? one : best, null);
  }
  function zoom(to) {
    var first = time[0], unit = (time[1] - first) / (right - left), scale = (right - left) / (to[1] - to[0]);
    function moved(px) { return left + (first + (px - left) * unit - to[0]) * scale; }
    span = to;
    series.forEach(one => {
      one.points = one.all.map(p => [moved(p[0]), p[1]]);
      one.g.querySelector("polyline").setAttribute("points", one.points.filter(inside).join(" "));
      one.g.querySelectorAll("circle").forEach(dot => {
        dot.dataset.x = dot.dataset.x || dot.getAttribute("cx");
        var x = moved(+dot.dataset.x);
        dot.setAttribute("cx", x); dot.style.display = inside([x]) ? "" : "none";
      });
    });
    svg.querySelectorAll(".event").forEach(event => {
      var x = left + (+event.dataset.at - to[0]) * scale, line = event.querySelector("line");
      event.setAttribute("transform", "translate(" + (x - line.getAttribute("x1")) + " 0)");
      event.style.display = inside([x]) ? "" : "none";
    });
    var ticks = svg.querySelector(".ticks"), most = Math.min((right - left) / 64, 8), least = (to[1] - to[0]) / most;
    var power = Math.pow(10, Math.floor(Math.log10(least)));
    var step = [1, 2, 5, 10].map(f => f * power).find(s => s >= least);
    ticks.textContent = "";
    for (var n = Math.ceil(to[0] / step - 1e-9); n * step <= to[1] * (1 + 1e-9); n++) {
      var x = left + (n * step - to[0]) * scale;
      make(ticks, "line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 5 });
      make(ticks, "text", { "text-anchor": "middle", x: x, y: bottom + 21 }).textContent = +(n * step).toPrecision(6);
    }
    hide();
  }
  function zoom_all(to) {
    // Charts over the same time stay comparable.
    figure.parentNode.querySelectorAll("svg[data-time]").forEach(one => { if (one.zoom) one.zoom(to); });
  }
  function enlarge(ends) {
    ends = ends.map(x => Math.min(Math.max(x, left), right)).sort((a, b) => a - b);
    var unit = (span[1] - span[0]) / (right - left);
    if (ends[1] - ends[0] > 8) zoom_all(ends.map(x => span[0] + (x - left) * unit));
  }
  if (time) {
    svg.zoom = to => { zoom(to || time); };
    figure.querySelector("figcaption").title = "Drag, or press Enter at a value, to enlarge the time; double-click or Escape shows all of it";
    svg.addEventListener("pointerdown", event => { if (event.pointerType === "mouse") from = place(event)[0]; });
    svg.addEventListener("dblclick", () => { zoom_all(null); });
    window.addEventListener("pointerup", event => {
      if (from === null) return;
      chosen.setAttribute("visibility", "hidden");
      enlarge([from, place(event)[0]]);
      from = null;
    });
  }
  svg.addEventListener("pointermove", event => {
    var x = place(event)[0], near = nearest(x);
    if (near !== null) show(near);
    if (from === null) return;
    set(chosen, { visibility: "visible", x: Math.max(Math.min(from, x), left), width: Math.abs(Math.min(Math.max(x, left), right) - from) });
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", event => {
    var step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], xs = places();
    if (event.key === "Escape") { hide(); if (time) zoom_all(null); }
    if (event.target !== svg) return;
    if (event.key === "Enter" && time && at >= 0) enlarge([-1, 1].map(side => xs[at] + side * (right - left) / 4));
    if (!step || !xs.length) return;
    event.preventDefault();
    at = Math.min(Math.max(at + step, 0), xs.length - 1);
    show(xs[at]);
  });
  box.querySelectorAll("text[data-s], li[data-s]").forEach(name => {
    function toggle() {
      var off = !name.classList.contains("off");
      figure.querySelectorAll("[data-s='" + name.dataset.s + "']").forEach(one => {
        one.classList.toggle("off", off);
        if (one.tabIndex >= 0) one.setAttribute("aria-pressed", !off);
      });
      hide();
    }
    set(name, { tabindex: 0, role: "button", "aria-pressed": true });
    name.addEventListener("click", toggle);
    name.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
    });
  });
});
