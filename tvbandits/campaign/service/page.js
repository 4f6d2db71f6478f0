(function () {
  "use strict";
  // Of names that would cover each other the first stays; the others show beside the pointer.
  function uncover() {
    var kept = [];
    document.querySelectorAll(".label").forEach(function (name) {
      var box = name.getBoundingClientRect();
      var covers = kept.some(function (other) {
        return box.left < other.right && other.left < box.right &&
          box.top < other.bottom && other.top < box.bottom;
      });
      name.style.visibility = covers ? "hidden" : "visible";
      if (!covers) { kept.push(box); }
    });
  }
  document.querySelectorAll(".slider input").forEach(function (slider) {
    var name = slider.id.replace("-slider", "");
    slider.oninput = function () {
      document.querySelectorAll("#" + name + " g").forEach(function (frame, i) {
        frame.classList.toggle("hidden", i !== Number(slider.value));
        if (i === Number(slider.value)) {
          slider.setAttribute("aria-valuetext", frame.dataset.name);
          document.getElementById(name + "-at").textContent = frame.dataset.name;
        }
      });
    };
    slider.oninput();
  });
  uncover();
  window.addEventListener("resize", uncover);
})();
