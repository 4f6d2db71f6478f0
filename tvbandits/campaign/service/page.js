(function () {
  "use strict";
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function colours() {
    var style = getComputedStyle(document.documentElement);
    var of = function (name) { return style.getPropertyValue(name).trim(); };
    return { ink: of("--ink"), line: of("--line"), paper: of("--paper") };
  }
  function themed(layout) {
    var c = colours(), out = Object.assign({}, layout);
    out.paper_bgcolor = out.plot_bgcolor = "rgba(0,0,0,0)";
    out.font = { color: c.ink, size: 13 };
    out.modebar = { bgcolor: "rgba(0,0,0,0)", color: c.line, activecolor: c.ink };
    Object.keys(out).forEach(function (key) {
      if (/^[xy]axis/.test(key)) { out[key] = Object.assign({ gridcolor: c.line, zerolinecolor: c.line,
        automargin: true }, out[key]); }
    });
    return out;
  }
  function lighter(quoted, hex) {
    return '"#' + hex.replace(/../g, function (two) {
      return Math.round(115 + 0.55 * parseInt(two, 16)).toString(16);
    }) + '"';
  }
  function inked(data) {
    var c = colours(), text = JSON.stringify(data);
    if (dark.matches) { text = text.replace(/"#([0-9a-f]{6})"/g, lighter); }
    return JSON.parse(text.replace(/"INK"/g, JSON.stringify(c.ink))
      .replace(/"PAPER"/g, JSON.stringify(c.paper)).replace(/"LINE"/g, JSON.stringify(c.line)));
  }
  // Of names that would cover each other the one drawn last stays; the others show beside the pointer.
  function uncover(place) {
    var kept = [];
    Array.from(place.querySelectorAll(".textpoint text")).reverse().forEach(function (name) {
      var box = name.getBoundingClientRect();
      var covers = kept.some(function (other) {
        return box.left < other.right && other.left < box.right &&
          box.top < other.bottom && other.top < box.bottom;
      });
      name.style.visibility = covers ? "hidden" : "visible";
      if (!covers) { kept.push(box); }
    });
  }
  function draw(place) {
    var said = JSON.parse(document.getElementById(place.id + "-data").textContent);
    var slider = document.getElementById(place.id + "-slider"), shown = said;
    if (slider) {
      shown = said.frames[Number(slider.value)];
      slider.setAttribute("aria-valuetext", shown.name);
      document.getElementById(place.id + "-at").textContent = shown.name;
      slider.oninput = function () { draw(place); };
    }
    Plotly.react(place, inked(shown.data), themed(inked(said.layout)),
      { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] });
  }
  function drawAll() { document.querySelectorAll(".plot").forEach(draw); }
  drawAll();
  document.querySelectorAll(".plot").forEach(function (place) {
    uncover(place);
    place.on("plotly_afterplot", function () { uncover(place); });
  });
  dark.addEventListener("change", drawAll);
})();
