"use strict";
// In the page: what is wrong with it, as lines for the page around it.
addEventListener("load", function () {
  var wrong = [], wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) wrong.push("is " + wide + " px wider than the screen");
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
  });
  parent.postMessage([innerWidth + " px: " + figures.length + " charts"].concat(wrong.map(function (what) { return innerWidth + " px: WRONG: " + what; })).join("\n"), "*");
});
