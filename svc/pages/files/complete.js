// The line with a query: names, operators and calls are offered while it is written (combobox of ARIA), and a fault is shown at its place without
// leaving the rows. What is offered stands in the page.

const form = document.querySelector("form.line");
const input = document.getElementById("filter");

const words = (id) => [...(document.getElementById(id)?.querySelectorAll("option") ?? [])].map(({ value, label }) => ({ value, label }));
const names = words("filter-names");
const operators = words("filter-operators");
const calls = words("filter-calls");
const MOST = 12; // that are offered at once

const list = document.createElement("ul");
let offered = [];
let chosen = -1;
let start = 0; // of the word that is being written

/** The words that fit behind `text`, and where the one that they would take the place of begins. */
function fitting(text) {
  const term = text.slice(Math.max(...[..."&|([;,{"].map((each) => text.lastIndexOf(each))) + 1);
  const [, name, operator] = /^([^=!<>]*)([=!<>].*)?$/.exec(term) ?? [];
  const isKnown = names.some(({ value }) => value === name);
  if (name === undefined || (operator !== undefined && !isKnown)) return [0, []];
  if (operator !== undefined || isKnown) {
    const written = operator ?? "";
    const found = operators.filter(({ value }) => value.startsWith(written) && value !== written);
    return [text.length - written.length, /\(|\{/.test(text.at(-term.length - 1) ?? "") && !written ? [] : found];
  }
  const begin = name.replace(/^[-+]/, "").toLowerCase();
  const all = term.length === text.length || "&|".includes(text.at(-term.length - 1)) ? [...names, ...calls] : names;
  return [text.length - begin.length, all.filter(({ value }) => value.toLowerCase().startsWith(begin) && value !== begin)];
}

function close() {
  offered = [];
  chosen = -1;
  list.hidden = true;
  list.replaceChildren();
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}

function offer() {
  close();
  if (input.selectionStart !== input.selectionEnd) return;
  [start, offered] = fitting(input.value.slice(0, input.selectionStart));
  offered = offered.slice(0, MOST);
  if (!offered.length) return;
  list.replaceChildren(
    ...offered.map(({ value, label }, number) => {
      const option = document.createElement("li");
      option.id = `filter-option-${number}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      const note = document.createElement("span");
      note.className = "quiet";
      note.textContent = label;
      option.append(value, " ", note);
      option.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(number);
      });
      return option;
    }),
  );
  list.hidden = false;
  input.setAttribute("aria-expanded", "true");
}

function choose(number) {
  list.children[chosen]?.setAttribute("aria-selected", "false");
  chosen = (number + offered.length) % offered.length;
  list.children[chosen].setAttribute("aria-selected", "true");
  list.children[chosen].scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", list.children[chosen].id);
}

function take(number) {
  input.setRangeText(offered[number].value, start, input.selectionStart, "end");
  offer();
}

function onKey(event) {
  if (!offered.length) {
    if (event.key === "ArrowDown") offer();
    return;
  }
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen < 0 ? -1 : chosen - 1);
  else if (event.key === "Enter" && chosen >= 0) take(chosen);
  else if (event.key === "Escape") {
    close();
    event.stopPropagation();
  } else return;
  event.preventDefault();
}

/** Ask whether the query can be run; if it cannot, show why, and leave the rows. */
async function send(event) {
  event.preventDefault();
  close();
  const address = `?${new URLSearchParams(new FormData(form))}`;
  let page;
  try {
    const response = await fetch(address, { headers: { Accept: "text/html" }, redirect: "manual", cache: "no-store" });
    if (response.status === 400) page = new DOMParser().parseFromString(await response.text(), "text/html");
  } catch {
    // the browser says what is wrong with the connection
  }
  const fault = page?.getElementById("filter-fault");
  if (!fault) {
    location.assign(address);
    return;
  }
  input.setAttribute("aria-invalid", "true");
  document.getElementById("filter-fault").replaceChildren(...fault.childNodes);
  input.focus();
  if (fault.dataset.position !== undefined) input.setSelectionRange(Number(fault.dataset.position), Number(fault.dataset.position) + 1);
}

if (form && input) {
  list.id = "filter-options";
  list.className = "options";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "What fits here");
  list.hidden = true;
  input.after(list);
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("aria-expanded", "false");
  input.addEventListener("input", offer);
  input.addEventListener("keydown", onKey);
  input.addEventListener("blur", close);
  form.addEventListener("submit", send);
}
