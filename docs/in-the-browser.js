// Run Python in a worker, so that the page responds while Python computes.
const part = (name) => document.getElementById(`tv-${name}`);
const base = new URL(".", document.currentScript.src);
let worker = null;

function show({ state, output, picture, done }) {
  if (state !== undefined) part("state").textContent = state;
  if (output !== undefined) {
    part("output").hidden = false;
    part("output").textContent += output;
  }
  if (picture) {
    part("picture").hidden = false;
    part("picture").src = `data:image/png;base64,${picture}`;
  }
  if (done) part("run").disabled = false;
}

function run() {
  part("run").disabled = true;
  part("picture").hidden = part("output").hidden = true;
  part("output").textContent = "";
  if (location.protocol === "file:") {
    show({ state: "Opened from the disk: serve the site with python -m http.server -d site", done: true });
    return;
  }
  if (worker === null) {
    worker = new Worker(new URL("in-the-browser-worker.js", base), { type: "module" });
    worker.onmessage = (message) => show(message.data);
  }
  worker.postMessage({ code: part("code").value });
}

part("run").addEventListener("click", run);
