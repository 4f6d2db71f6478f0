// Load Pyodide and its packages from their server, and tvbandits from this site; run code with them.
const PYODIDE = "https://cdn.jsdelivr.net/pyodide/v314.0.7/full/";
const PACKAGES = ["micropip", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib"];
// The picture that the code has drawn, as base64; an empty text if there is none.
const PICTURE = `
import base64, io
from matplotlib import pyplot
buffer = io.BytesIO()
if pyplot.get_fignums():
    pyplot.savefig(buffer, dpi=110, bbox_inches="tight")
    pyplot.close("all")
base64.b64encode(buffer.getvalue()).decode()
`;
let starting = null;

async function start() {
  postMessage({ state: "fetching Python ..." });
  const { loadPyodide } = await import(`${PYODIDE}pyodide.mjs`);
  const python = await loadPyodide({ indexURL: PYODIDE, env: { MPLBACKEND: "Agg" } });
  python.setStdout({ batched: (line) => postMessage({ output: `${line}\n` }) });
  postMessage({ state: "fetching numpy, scipy, scikit-learn, pandas and matplotlib ..." });
  await python.loadPackage(PACKAGES, { messageCallback: () => {}, errorCallback: () => {} });
  const missing = PACKAGES.filter((name) => !(name in python.loadedPackages));
  if (missing.length) throw new Error(`${missing.join(", ")} could not be fetched from ${PYODIDE}`);
  postMessage({ state: "fetching tvbandits ..." });
  const listing = await (await fetch(new URL("wheels/made.json", import.meta.url))).json();
  const wheel = new URL(`wheels/${listing.wheel}`, import.meta.url);
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
    postMessage({ state: "running ..." });
    const startTime = performance.now();
    await python.runPythonAsync(data.code, { globals: python.globals.get("dict")() });
    const picture = await python.runPythonAsync(PICTURE);
    const seconds = ((performance.now() - startTime) / 1000).toFixed(1);
    postMessage({ state: `done in ${seconds} s`, picture, done: true });
  } catch (error) {
    postMessage({ state: "That did not work:", output: `${error.message ?? error}\n`, done: true });
  }
};
