// Panels of the console: names are completed, what runs can be stopped, and the last statements are kept in this browser. What is kept has been made by the
// server, which leaves out what is secret.

const MOST = 100; // that are kept, of each panel
const SHOWN = 8; // names that are offered at a time
const tell = (text) => { document.getElementById("status").textContent = text; };

// --- what runs ---------------------------------------------------------------------------------------------------------------------------

const running = document.querySelector("[data-running]");
const form = document.querySelector("form[data-run]");

function show(isRunning) {
  running.hidden = !isRunning;
  tell(isRunning ? "Running" : "");
}

if (running && form) {
  form.addEventListener("submit", (event) => {
    const leads = form.hasAttribute("data-download") || event.submitter?.hasAttribute("data-download");
    if (!leads) show(true);
  });
  running.querySelector("[data-stop]").addEventListener("click", () => {
    window.stop(); // the connection is closed, so the server ends the work
    show(false);
    tell("Stopped");
    form.querySelector("textarea, input:not([type=hidden])")?.focus();
  });
  addEventListener("pageshow", (event) => { if (event.persisted) show(false); });
}

// --- the last statements -----------------------------------------------------------------------------------------------------------------

const history = document.querySelector("[data-history]");

function read(key) {
  try {
    const found = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

function write(key, entries) {
  try {
    localStorage.setItem(key, JSON.stringify(entries));
  } catch { // there is no room, or the browser keeps nothing
    tell("This browser has no room to keep the statement");
  }
}

if (history) {
  const { history: panel, user, text, more } = history.dataset;
  const key = `svc.${panel}.${user}`;
  const list = history.querySelector("ul");
  let entries = read(key);
  if (text) {
    entries = [{ text, more }, ...entries.filter((each) => each.text !== text || each.more !== more)].slice(0, MOST);
    write(key, entries);
  }
  const recall = document.querySelector("form[data-recall]");

  const pick = (entry) => {
    if (recall) {
      recall.elements[".body"].value = entry.text;
      recall.requestSubmit();
      return;
    }
    form.elements.sql.value = entry.text;
    form.elements.parameters.value = entry.more ?? "";
    history.open = false;
    form.elements.sql.focus();
  };

  const render = () => {
    list.replaceChildren(...entries.map((entry) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = String(entry.text).slice(0, 300);
      button.addEventListener("click", () => pick(entry));
      item.append(button);
      return item;
    }));
    history.hidden = entries.length === 0;
  };

  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const buttons = [...list.querySelectorAll("button")];
    buttons[buttons.indexOf(document.activeElement) + step]?.focus();
  });
  history.querySelector("[data-clear]").addEventListener("click", () => {
    localStorage.removeItem(key);
    entries = [];
    render();
    tell("Forgotten");
    form.querySelector("textarea, input:not([type=hidden])")?.focus();
  });
  render();
}

// --- names -------------------------------------------------------------------------------------------------------------------------------

const offered = document.getElementById("offered");

for (const area of document.querySelectorAll("textarea[data-complete]")) {
  const names = [...(document.getElementById(area.dataset.complete)?.options ?? [])].map((option) => option.value);
  const begun = () => area.value.slice(0, area.selectionStart).match(/[\w.]+$/)?.[0] ?? "";

  const found = () => {
    const word = begun().toLowerCase();
    if (!word) return [];
    const fits = (name) => {
      const lower = name.toLowerCase();
      return lower !== word && (lower.startsWith(word) || lower.includes(`.${word}`));
    };
    return names.filter(fits).slice(0, SHOWN);
  };

  const put = (name) => {
    const end = area.selectionStart;
    area.setRangeText(name, end - begun().length, end, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
    area.focus();
  };

  const offer = () => {
    const fitting = found();
    offered.hidden = fitting.length === 0;
    offered.replaceChildren(...fitting.map((name) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => put(name));
      return button;
    }));
  };

  area.addEventListener("input", offer);
  area.addEventListener("keydown", (event) => {
    if (event.key !== " " || !event.ctrlKey) return;
    event.preventDefault();
    const [first] = found();
    if (first) put(first);
  });
}
