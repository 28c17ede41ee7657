"use strict";
// In the page: what is wrong with it, as lines for the page around it.
addEventListener("load", function () {
  var wrong = [], wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) wrong.push("is " + wide + " px wider than the screen");
  function press(on, key) { on.dispatchEvent(new KeyboardEvent("keydown", { key: key, bubbles: true, cancelable: true })); }
  document.querySelectorAll(".scroll, svg[data-plot], [role=button]:not(.f)").forEach(function (one) {
    if (one.tabIndex < 0) wrong.push("the keyboard does not reach " + (one.getAttribute("aria-label") || one.textContent.slice(0, 30)));
  });
  document.querySelectorAll("svg[data-all]").forEach(function (flame) {
    var first = flame.querySelector("g.f[tabindex='0']");
    if (!first) return wrong.push("the keyboard reaches no frame of the flame graph");
    first.focus();
    press(first, "ArrowUp");
    var next = document.activeElement;
    if (next === first && flame.querySelectorAll("g.f").length > 1) wrong.push("arrows lead to no other frame");
    press(next, "Enter");
    if (next !== first && getComputedStyle(flame.querySelector(".reset")).display === "none") wrong.push("Enter does not enlarge a frame");
    press(next, "Escape");
  });
  document.querySelectorAll("th").forEach(function (head) {
    var isVerdict = /^(verdict|effect)/.test(head.textContent);
    if (isVerdict && head.getBoundingClientRect().right > innerWidth + 1) wrong.push("the column " + head.textContent + " is cut off");
  });
  var figures = document.querySelectorAll("figure");
  figures.forEach(function (figure) {
    var name = figure.querySelector("figcaption").textContent;
    var seen = Array.from(figure.querySelectorAll("svg")).filter(function (svg) { return svg.getClientRects().length; });
    if (seen.length !== 1) return wrong.push(name + ": " + seen.length + " pictures shown instead of 1");
    var drawn = Array.from(seen[0].querySelectorAll("polyline, path, rect.bar")).some(function (shape) {
      var box = shape.getBBox();
      return box.width + box.height > 0;
    });
    if (!drawn) wrong.push(name + ": nothing is drawn");
    seen[0].querySelectorAll("text").forEach(function (text) {
      var box = text.getBoundingClientRect();
      if (box.left < -1 || box.right > innerWidth + 1) wrong.push(name + ": " + text.textContent + " is cut off");
    });
    if (!seen[0].dataset.plot) return;
    var area = seen[0].getBoundingClientRect();
    seen[0].dispatchEvent(new PointerEvent("pointermove", { clientX: area.left + area.width / 2, clientY: area.top + area.height / 2 }));
    if (seen[0].parentNode.querySelector(".tip").hidden) wrong.push(name + ": no value under the pointer");
    seen[0].dispatchEvent(new PointerEvent("pointerleave"));
    var tip = seen[0].parentNode.querySelector(".tip"), ticks = seen[0].querySelector(".ticks");
    press(seen[0], "ArrowRight");
    if (tip.hidden) wrong.push(name + ": no value at an arrow key");
    if (seen[0].dataset.time) {
      var before = ticks.textContent;
      press(seen[0], "Enter");
      if (ticks.textContent === before) wrong.push(name + ": Enter does not enlarge the time");
    }
    press(seen[0], "Escape");
    seen[0].parentNode.querySelectorAll("[aria-pressed]").forEach(function (series) {
      press(series, "Enter");
      if (series.getAttribute("aria-pressed") !== "false") wrong.push(name + ": Enter does not hide " + series.textContent);
      press(series, "Enter");
    });
  });
  var topologies = document.querySelectorAll("svg.topo");
  var shown = Array.from(topologies).filter(function (svg) { return svg.getClientRects().length; });
  if (topologies.length && shown.length !== 1) wrong.push("topology: " + shown.length + " pictures shown instead of 1");
  shown.forEach(function (svg) {
    svg.querySelectorAll("rect, text").forEach(function (part) {
      if (part.getBoundingClientRect().right > innerWidth + 1) wrong.push("topology: " + (part.textContent || "a box") + " is cut off");
    });
  });
  parent.postMessage([innerWidth + " px: " + figures.length + " charts"].concat(wrong.map(function (what) { return innerWidth + " px: WRONG: " + what; })).join("\n"), "*");
});
