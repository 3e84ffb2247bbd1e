// Arrow keys in a table: from link to link, up and down in the same column. Shift and a heading's arrow: a further order.

function inTable(link) {
  const cell = link.closest("th, td");
  const row = cell?.parentElement;
  return row?.closest("table.rows") ? { row, column: [...row.children].indexOf(cell) } : null;
}

function focusIn(row, column) {
  const links = row.children[column]?.querySelectorAll("a[href]") ?? [];
  const link = links[0] ?? row.querySelector("a[href]");
  link?.focus();
  link?.scrollIntoView({ block: "nearest", inline: "nearest" });
  return !!link;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !(event.target instanceof Element)) return;
  const step = { ArrowDown: 1, ArrowUp: -1, ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  const target = event.target;
  if (target.matches(".scroll") && event.key === "ArrowDown") {
    const row = target.querySelector("table.rows tbody tr");
    if (row && focusIn(row, 0)) event.preventDefault();
    return;
  }
  const place = target.matches("a[href]") ? inTable(target) : null;
  if (!place) return;
  const rows = [...place.row.closest("table").rows];
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const links = [...place.row.querySelectorAll("a[href]")];
    links[links.indexOf(target) + step]?.focus();
  } else {
    let at = rows.indexOf(place.row) + step;
    while (rows[at] && !focusIn(rows[at], place.column)) at += step;
  }
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const link = event.shiftKey && event.target instanceof Element ? event.target.closest("a[data-further]") : null;
  if (!link) return;
  event.preventDefault();
  location.assign(link.dataset.further);
});
