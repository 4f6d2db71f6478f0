// Python in a worker: Pyodide and its packages from its own server, tvbandits from this site.
const PYODIDE = "https://cdn.jsdelivr.net/pyodide/v314.0.7/full/";
const PACKAGES = ["micropip", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib"];
const DRAWN = `
import base64, io
from matplotlib import pyplot
held = io.BytesIO()
if pyplot.get_fignums():
    pyplot.savefig(held, dpi=110, bbox_inches="tight")
    pyplot.close("all")
base64.b64encode(held.getvalue()).decode()
`;
const say = (what) => postMessage(what);
let starting = null;

async function start() {
  say({ state: "fetching Python ..." });
  const { loadPyodide } = await import(`${PYODIDE}pyodide.mjs`);
  const python = await loadPyodide({ indexURL: PYODIDE, env: { MPLBACKEND: "Agg" } });
  python.setStdout({ batched: (line) => say({ output: `${line}\n` }) });
  say({ state: "fetching numpy, scipy, scikit-learn, pandas and matplotlib ..." });
  await python.loadPackage(PACKAGES, { messageCallback: () => {}, errorCallback: () => {} });
  const missing = PACKAGES.filter((name) => !(name in python.loadedPackages));
  if (missing.length) throw new Error(`${missing.join(", ")} could not be fetched from ${PYODIDE}`);
  say({ state: "fetching tvbandits ..." });
  const made = await (await fetch(new URL("wheels/made.json", import.meta.url))).json();
  const wheel = new URL(`wheels/${made.wheel}`, import.meta.url);
  await python.pyimport("micropip").install(wheel.href);
  return python;
}

onmessage = async ({ data }) => {
  try {
    starting ??= start();
    const python = await starting.catch((error) => {
      starting = null; // so that another try fetches again
      throw error;
    });
    say({ state: "running ..." });
    const since = performance.now();
    await python.runPythonAsync(data.code, { globals: python.globals.get("dict")() });
    const picture = await python.runPythonAsync(DRAWN);
    say({ state: `done in ${((performance.now() - since) / 1000).toFixed(1)} s`, picture, done: true });
  } catch (error) {
    say({ state: "That did not work:", output: `${error.message ?? error}\n`, done: true });
  }
};
