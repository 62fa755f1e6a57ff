"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const ROWS = 25;

// -- tables: found by any cell, sorted by a click on a column, a page at a time

for (const box of all(".paged")) {
  const body = box.querySelector("tbody"), rows = [...body.rows], pager = box.querySelector(".pager");
  const [back, said, on] = pager.children, heads = all("th", box);
  let shown = rows, at = 0;
  const draw = () => {
    body.replaceChildren(...shown.slice(at, at + ROWS));
    said.textContent = shown.length ? `${at + 1} to ${Math.min(at + ROWS, shown.length)} of ${shown.length}` : "none found";
    back.disabled = at === 0;
    on.disabled = at + ROWS >= shown.length;
  };
  box.find = (words) => {
    shown = rows.filter((row) => row.textContent.toLowerCase().includes(words));
    at = 0;
    draw();
  };
  back.onclick = () => { at -= ROWS; draw(); };
  on.onclick = () => { at += ROWS; draw(); };
  heads.forEach((head, k) => {
    head.onclick = () => {
      const up = head.getAttribute("aria-sort") !== "ascending", sign = up ? 1 : -1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const order = new Intl.Collator(undefined, { numeric: true }).compare;
      const value = head.classList.contains("n") ? (a, b) => parseFloat(a) - parseFloat(b) : order;
      for (const list of new Set([rows, shown])) {
        list.sort((a, b) => sign * value(a.cells[k].textContent, b.cells[k].textContent));
      }
      at = 0;
      draw();
    };
  });
  draw();
}

// -- one search for the maps and the tables of a section

const plain = document.createElement("textarea"); // names in figures are escaped: this reads them without running them
const unescaped = (text) => { plain.innerHTML = text; return plain.value.toLowerCase(); };

function mark(figure, words) {
  // the last trace is empty: it rings what was found
  const last = figure.data.length - 1, ring = { x: [], y: [], text: [] };
  if (figure.data[last].z) ring.z = [];
  for (const trace of words ? figure._fullData.slice(0, last) : []) {
    (Array.isArray(trace.text) ? trace.text : []).forEach((text, i) => {
      if (unescaped(text).includes(words)) {
        for (const axis in ring) ring[axis].push(trace[axis][i]);
      }
    });
  }
  const change = Object.fromEntries(Object.entries(ring).map(([key, value]) => [key, [value]]));
  Plotly.restyle(figure, change, [last]);
}

for (const box of all("input.find")) {
  box.oninput = () => {
    const section = box.closest("section"), words = box.value.trim().toLowerCase();
    for (const other of all("input.find", section)) other.value = box.value;
    for (const table of all(".paged.searched", section)) table.find(words);
    for (const figure of all(".searched .plotly-graph-div", section)) if (figure.data) mark(figure, words);
  };
}

// -- figures: the library is packed, so that a page with it is two megabytes rather than five

async function drawFigures(packed) {
  const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const library = document.createElement("script");
  library.textContent = await new Response(stream).text();
  document.head.append(library);
  for (const place of all(".plotly-graph-div")) {
    const { data, layout, config } = JSON.parse(place.nextElementSibling.textContent);
    const sides = layout.scene && layout.scene.aspectratio; // as large as the screen is wide
    for (const axis in sides) sides[axis] *= Math.min(1.5, place.clientWidth / 420);
    Plotly.newPlot(place, data, layout, config);
  }
  for (const fold of all("details")) { // what is drawn while folded has no width
    fold.addEventListener("toggle", () => all(".plotly-graph-div", fold).forEach((place) => Plotly.Plots.resize(place)));
  }
}

const packed = document.getElementById("library");
if (packed) {
  drawFigures(packed).catch(() => {
    for (const place of all(".plotly-graph-div")) {
      place.replaceWith("This browser cannot draw the figure; a newer one can.");
    }
  });
}
