// The form of a record: times of this place, references found while one types, pictures before they are sent. The form does without it.

const status = document.getElementById("status");
const tell = (text) => { if (status) status.textContent = text; };

for (const form of document.querySelectorAll("form[data-begun]")) {
  let isSent = false;
  form.addEventListener("submit", () => { isSent = true; });
  addEventListener("beforeunload", (event) => { if (!isSent) event.preventDefault(); });
}

document.getElementById("faults")?.focus();

// Sent once, however often the button is pressed; a page that is come back to can be sent again.
for (const form of document.querySelectorAll("form.record")) {
  let isSent = false;
  form.addEventListener("submit", (event) => {
    if (isSent) event.preventDefault();
    isSent = true;
  });
  addEventListener("pageshow", () => { isSent = false; });
}

// What is typed is meant: null or missing is not.
for (const state of document.querySelectorAll("select.state")) {
  const text = state.parentElement.querySelector("[name^='v.']");
  text?.addEventListener("input", () => { if (state.value !== "value" && text.value) state.value = "value"; });
}

// --- times ---------------------------------------------------------------------------------------------------------------------

const two = (number, digits = 2) => String(number).padStart(digits, "0");

/** A moment as the value of a field for local times. */
function local(moment) {
  const day = `${two(moment.getFullYear(), 4)}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${day}T${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}.${two(moment.getMilliseconds(), 3)}`;
}

for (const utc of document.querySelectorAll("input[data-date]")) {
  const before = new Date(utc.value);
  const year = before.getFullYear();
  if (utc.value && !(year >= 1 && year <= 9999)) continue;  // no field for local times holds it
  const here = document.createElement("input");
  here.type = "datetime-local";
  here.step = "0.001";
  here.value = utc.value ? local(before) : "";
  here.setAttribute("aria-label", `${utc.labels[0]?.firstElementChild?.textContent ?? "Time"}, local time`);
  for (const name of ["aria-describedby", "aria-invalid"]) if (utc.hasAttribute(name)) here.setAttribute(name, utc.getAttribute(name));
  const button = document.createElement("button");
  button.type = "button";
  const show = (isLocal) => {
    utc.hidden = isLocal;
    here.hidden = !isLocal;
    button.textContent = isLocal ? "UTC" : "Local time";
    button.setAttribute("aria-label", isLocal ? "Show the time in UTC" : "Show the local time");
  };
  // What is sent is the field in UTC, and that is changed by nothing but an entry.
  here.addEventListener("input", () => {
    if (here.validity.badInput) return;  // half of a time: the browser does not send the form
    const moment = new Date(here.value);
    utc.value = here.value && !Number.isNaN(moment.valueOf()) ? moment.toISOString() : "";
  });
  utc.addEventListener("input", () => {
    const moment = new Date(utc.value);
    here.value = utc.value && !Number.isNaN(moment.valueOf()) ? local(moment) : "";
  });
  button.addEventListener("click", () => {
    if (here.validity.badInput) here.value = utc.value ? local(new Date(utc.value)) : "";
    show(here.hidden);
    (here.hidden ? utc : here).focus();
  });
  utc.after(here, button);
  show(true);
}

// --- files ---------------------------------------------------------------------------------------------------------------------

for (const input of document.querySelectorAll("input[data-file]")) {
  const told = document.createElement("span");
  told.className = "quiet";
  input.after(told);
  input.addEventListener("change", async () => {
    const file = input.files[0];
    told.textContent = file ? `${file.type || "file"}, ${file.size.toLocaleString("en")} bytes` : "";
    if (!file?.type.startsWith("image/")) return;
    const picture = await createImageBitmap(file).catch(() => null);
    if (!picture || input.files[0] !== file) return;
    const canvas = document.createElement("canvas");
    const scale = Math.min(1, 160 / picture.width, 120 / picture.height);
    [canvas.width, canvas.height] = [Math.max(1, picture.width * scale), Math.max(1, picture.height * scale)];
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    told.append(" ", canvas);
  });
}

// --- references ------------------------------------------------------------------------------------------------------------------

const WAIT = 200;  // ms after the last key

for (const [number, input] of document.querySelectorAll("input[data-pick]").entries()) {
  const list = document.createElement("ul");
  list.className = "listbox";
  list.id = `choices-${number}`;
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Records");
  input.after(list);
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-expanded", "false"], ["aria-controls", list.id]]) input.setAttribute(name, value);
  let timer = 0;
  let asked = 0;
  let chosen = -1;

  const close = () => {
    asked += 1;
    clearTimeout(timer);
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (index) => {
    chosen = index;
    for (const [at, option] of [...list.children].entries()) option.setAttribute("aria-selected", String(at === index));
    const option = list.children[index];
    if (!option) return;
    input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  };
  const take = (option) => {
    input.value = option.dataset.text;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    close();
  };
  const search = async () => {
    const mine = ++asked;
    const answer = await fetch(`${input.dataset.pick}?_view=pick&q=${encodeURIComponent(input.value)}`, { headers: { Accept: "text/html" } }).catch(() => null);
    if (mine !== asked) return;
    if (!answer?.ok) { tell("The records cannot be searched now"); return; }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine !== asked) return;
    list.replaceChildren(...[...page.querySelectorAll("[data-key-text]")].map((found, at) => {
      const option = document.createElement("li");
      option.id = `${list.id}-${at}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.dataset.text = found.dataset.keyText;
      option.textContent = found.dataset.label ? `${found.dataset.keyText} – ${found.dataset.label}` : found.dataset.keyText;
      option.addEventListener("mousedown", (event) => { event.preventDefault(); take(option); });
      return option;
    }));
    list.hidden = !list.children.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    chosen = -1;
    tell(`${list.children.length} records`);
  };

  input.addEventListener("input", (event) => {
    clearTimeout(timer);
    if (event.isTrusted) timer = setTimeout(search, WAIT);
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && list.hidden) { event.preventDefault(); search(); return; }
    if (list.hidden) return;
    const last = list.children.length - 1;
    if (event.key === "ArrowDown") choose(chosen < last ? chosen + 1 : 0);
    else if (event.key === "ArrowUp") choose(chosen > 0 ? chosen - 1 : last);
    else if (event.key === "Enter" && chosen >= 0) take(list.children[chosen]);
    else if (event.key === "Escape") { event.stopPropagation(); close(); }
    else return;
    event.preventDefault();
  });
}
