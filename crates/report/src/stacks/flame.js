"use strict";
document.querySelectorAll("svg[data-all]").forEach(function (svg) {
  var edge = 10, is_file = svg === document.documentElement;
  var frames = Array.prototype.slice.call(svg.querySelectorAll("g.f"));
  var width = +svg.getAttribute("data-width") - 2 * edge, all = +svg.getAttribute("data-all");
  var details = svg.querySelector(".details"), found = svg.querySelector(".found");
  var reset = svg.querySelector(".reset"), search = svg.querySelector(".search");
  var at = { x: 0, w: all, d: -1 }, pattern = null;
  frames.forEach(function (g) {
    g.x = +g.getAttribute("data-x"); g.w = +g.getAttribute("data-w"); g.d = +g.getAttribute("data-d");
    g.rect = g.querySelector("rect"); g.label = g.querySelector("text");
    g.title = g.querySelector("title").textContent;
    g.name = g.title.replace(/ \([^(]*\)$/, "");
    g.fill = g.rect.getAttribute("fill");
    g.addEventListener("click", function () { at = g; draw(); });
    g.addEventListener("mouseover", function () { details.textContent = g.title; });
    g.addEventListener("mouseout", function () { details.textContent = " "; });
  });
  function draw() {
    var scale = width / at.w;
    frames.forEach(function (g) {
      var below = g.d < at.d && g.x <= at.x && g.x + g.w >= at.x + at.w;
      var inside = g.d >= at.d && g.x >= at.x && g.x + g.w <= at.x + at.w;
      g.style.display = below || inside ? "" : "none";
      g.style.opacity = below ? 0.5 : 1;
      if (!below && !inside) return;
      var x = below ? 0 : (g.x - at.x) * scale, w = below ? width : g.w * scale;
      g.rect.setAttribute("x", edge + x); g.rect.setAttribute("width", w);
      var room = Math.floor((w - 6) / 7);
      g.label.setAttribute("x", edge + x + 3);
      g.label.textContent = room < 3 ? "" : g.name.length <= room ? g.name : g.name.slice(0, room - 1) + "…";
    });
    reset.style.display = at.d < 0 ? "none" : "";
    mark();
  }
  function mark() {
    var parts = [];
    frames.forEach(function (g) {
      var hit = pattern && pattern.test(g.name);
      g.rect.setAttribute("fill", hit ? "rgb(230,0,230)" : g.fill);
      if (hit && g.style.display !== "none" && g.d >= at.d) parts.push(g);
    });
    // A frame below another that matches is part of it already.
    parts.sort(function (a, b) { return a.x - b.x || a.d - b.d; });
    var end = -1, sum = 0;
    parts.forEach(function (g) { if (g.x >= end) { sum += g.w; end = g.x + g.w; } });
    found.textContent = pattern ? "matched: " + (100 * sum / at.w).toFixed(1) + "%" : " ";
    search.textContent = pattern ? "reset search" : "search";
  }
  // One frame at a time can be reached with Tab; arrows lead to others, and Enter enlarges it.
  function beside(g, key) {
    var near = frames.filter(function (f) {
      if (f.style.display === "none") return false;
      if (key === "ArrowUp") return f.d === g.d + 1 && f.x >= g.x && f.x + f.w <= g.x + g.w;
      if (key === "ArrowDown") return f.d === g.d - 1 && f.x <= g.x && f.x + f.w >= g.x + g.w;
      return f.d === g.d && (key === "ArrowLeft" ? f.x < g.x : f.x > g.x);
    });
    near.sort(function (a, b) { return key === "ArrowUp" ? b.w - a.w : Math.abs(a.x - g.x) - Math.abs(b.x - g.x); });
    return near[0] || g;
  }
  function press(event) {
    if (event.key === "Enter") { at = this; draw(); }
    if (event.key.slice(0, 5) !== "Arrow") return;
    event.preventDefault();
    var next = beside(this, event.key);
    this.setAttribute("tabindex", -1); next.setAttribute("tabindex", 0);
    next.focus();
  }
  frames.forEach(function (g, n) {
    g.setAttribute("tabindex", n ? -1 : 0); g.setAttribute("role", "button");
    g.addEventListener("keydown", press);
    g.addEventListener("focus", function () { details.textContent = g.title; });
  });
  function ask() {
    var text = pattern ? null : prompt("Functions to mark (a regular expression)", "");
    try { pattern = text ? new RegExp(text) : null; } catch (error) { details.textContent = error.message; }
    mark();
  }
  search.addEventListener("click", ask);
  reset.addEventListener("click", function () { at = { x: 0, w: all, d: -1 }; draw(); });
  window.addEventListener("keydown", function (event) {
    if (is_file && (event.key === "F3" || (event.ctrlKey && event.key === "f"))) { event.preventDefault(); ask(); }
    if (event.key === "Escape") { at = { x: 0, w: all, d: -1 }; draw(); }
  });
  [search, reset].forEach(function (button) {
    button.setAttribute("tabindex", 0); button.setAttribute("role", "button");
    button.addEventListener("keydown", function (event) { if (event.key === "Enter") button.dispatchEvent(new Event("click")); });
  });
  draw();
});
