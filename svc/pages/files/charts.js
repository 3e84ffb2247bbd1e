// The values of a chart where the pointer is, or at the slider below it, for the keyboard. They are read from the chart's table, so charts that the server has
// drawn again (live.js) need nothing but another look.

document.documentElement.classList.add("scripted");

const used = new Set(); // ids of charts whose slider was moved

const plotOf = (chart) => chart.querySelector("svg.plot");

/** Show the row at the slider. */
function read(chart) {
  const slider = chart.querySelector(".reader input");
  const rows = chart.querySelectorAll("tbody tr");
  const row = rows[slider.value];
  if (!row) return;
  const heads = [...chart.querySelectorAll("thead th")].map((head) => head.textContent);
  const time = row.querySelector("time");
  const cells = [...row.children].slice(1).map((cell, at) => `${heads[at + 1]}: ${cell.textContent || "not measured"}`);
  const text = `${time.textContent} UTC, ${new Date(time.dateTime).toLocaleTimeString()} here. ${cells.join(", ")}`;
  const output = chart.querySelector("output");
  if (output.textContent !== text) output.textContent = text;
  slider.setAttribute("aria-valuetext", time.textContent);
  const { left, right, begin, end } = plotOf(chart).dataset;
  const share = (Date.parse(time.dateTime) - begin) / (end - begin);
  const x = Number(left) + Math.min(Math.max(share, 0), 1) * (right - left);
  chart.querySelector(".cursor").setAttribute("d", `M${x.toFixed(1)} 10V166`);
}

function move(chart, value) {
  const slider = chart.querySelector(".reader input");
  used.add(chart.id);
  slider.value = value;
  read(chart);
}

document.addEventListener("input", (event) => {
  const chart = event.target.closest?.(".chart");
  if (chart && event.target.matches(".reader input")) move(chart, event.target.value);
});

document.addEventListener("focusin", (event) => {
  if (event.target.matches(".reader input")) move(event.target.closest(".chart"), event.target.value);
});

document.addEventListener("pointermove", (event) => {
  const plot = event.target.closest?.("svg.plot");
  if (!plot) return;
  const chart = plot.closest(".chart");
  const { left, right, begin, end } = plot.dataset;
  const box = plot.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * plot.viewBox.baseVal.width;
  const at = Number(begin) + ((x - left) / (right - left)) * (end - begin);
  const times = [...chart.querySelectorAll("tbody time")].map((time) => Math.abs(Date.parse(time.dateTime) - at));
  if (times.length) move(chart, times.indexOf(Math.min(...times)));
});

document.addEventListener("refreshed", () => {
  for (const chart of document.querySelectorAll(".chart")) if (used.has(chart.id)) read(chart);
});
