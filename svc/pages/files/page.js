// What every page has: keys that lead somewhere, and a warning before what was entered is lost. Pages do all they can do without it.

const status = document.getElementById("status");

/** Say something to those who see the page and to those who hear it. */
export function tell(text) {
  if (status) status.textContent = text;
}

/** Times in the zone of the reader: the server writes them in UTC, which stays in the title. Charts stay as they are drawn. */
function localTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]:not(.chart time)")) {
    const moment = new Date(each.dateTime);
    if (!Number.isNaN(moment.getTime())) each.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  }
}

localTimes(document);
document.addEventListener("arriving", ({ detail }) => localTimes(detail));

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    tell("Copied");
  });
}

/** The keys that the page has, by what they lead to. */
function listKeys(dialog) {
  const keys = [...document.querySelectorAll("[data-key]")].filter((each) => !each.hidden).map((each) => {
    const name = each.ariaLabel || each.labels?.[0]?.textContent || each.textContent || each.title;
    return [each.dataset.key, name.trim()];
  });
  if (document.querySelector("table.rows")) keys.push(["Arrows", "from link to link in a table"], ["Shift, Enter", "on the arrow of a heading: a further order"]);
  if (document.querySelector("form[data-run]")) keys.push(["Ctrl, Enter", "run"]);
  keys.push(["?", "this list"], ["Esc", "leave a field, close this list"]);
  dialog.querySelector("dl").replaceChildren(
    ...keys.flatMap((pair) =>
      pair.map((text, at) => {
        const part = document.createElement(at ? "dd" : "dt");
        part.textContent = text;
        return part;
      }),
    ),
  );
}

const isTyping = (element) => element instanceof Element && element.matches("input, textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "Enter" && event.target instanceof Element) event.target.closest("form[data-run]")?.requestSubmit();
    return;
  }
  if (event.key === "Escape" && isTyping(event.target)) event.target.blur();
  if (isTyping(event.target)) return;
  const found = event.key === "?" ? document.getElementById("keys") : document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (!found) return;
  event.preventDefault();
  if (found instanceof HTMLDialogElement) {
    listKeys(found);
    found.showModal();
  }
  else if (isTyping(found)) {
    for (let part = found.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    found.focus();
  }
  else found.click();
});

for (const form of document.querySelectorAll("form[data-unsaved]")) {
  const state = () => JSON.stringify([...new FormData(form)].map(([name, value]) => [name, value instanceof File ? `${value.name} ${value.size}` : value]));
  const before = state();
  let isSent = false;
  form.addEventListener("submit", () => { isSent = true; });
  addEventListener("beforeunload", (event) => {
    if (!isSent && state() !== before) event.preventDefault();
  });
}
