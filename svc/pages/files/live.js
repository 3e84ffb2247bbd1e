// Sections of a page that follow the server: `<section id="x" data-live="ADDRESS">` is fetched again when an event comes from ADDRESS, and
// `<section id="x" data-poll="5">` every 5 seconds, while the page is visible. The server makes the page once more; what differs is put into place.
//
// `<button data-hold="x" hidden>`, pressed, holds a section (of all sections without a name). `<button data-follow="x" hidden>` is the opposite: the section
// stands still until it is pressed, and the tab remembers that. A refreshed section says so with the event "refreshed".

const LEAST = 1000; // ms between two fetches
const LONGEST = 30000; // ms between two attempts to reach the server
const sections = new Set([...document.querySelectorAll("[data-live], [data-poll]")].map((section) => section.id));
const sources = new Map(); // id -> EventSource
const polls = new Map(); // id -> timer of the next fetch
const wanted = new Set(); // ids of what has to be fetched
let timer = null;
let fetched = 0; // when the last fetch began
let isFetching = false;
let failures = 0;
let isLeaving = false;
let banner = null;

const find = (id) => document.getElementById(id);
const buttons = (kind, id) => [...document.querySelectorAll(`button[data-${kind}]`)].filter((each) => [id, ""].includes(each.dataset[kind]));
const isPressed = (button) => button.getAttribute("aria-pressed") === "true";
const isGoing = (id) =>
  !document.hidden && !isLeaving && !!find(id) && !buttons("hold", id).some(isPressed) && buttons("follow", id).every(isPressed);
const note = (id) => `live ${location.pathname} ${id}`;

// --- fetching ------------------------------------------------------------------------------------------------------------------------

/** Fetch a section again, soon: several wishes are one request. */
function want(id, delay = 0) {
  wanted.add(id);
  if (timer === null && !isFetching) timer = setTimeout(refresh, Math.max(delay, fetched + LEAST - Date.now()));
}

async function refresh() {
  timer = null;
  const ids = [...wanted].filter(isGoing);
  wanted.clear();
  if (!ids.length) return;
  isFetching = true;
  fetched = Date.now();
  try {
    const response = await fetch(location.href.split("#")[0], { headers: { Accept: "text/html" }, cache: "no-store" });
    const text = await response.text();
    const isLogin = response.redirected && new URL(response.url).pathname.endsWith("/login");
    if (response.status === 401 || isLogin) {
      isLeaving = true;
      location.reload(); // the form to log in, which leads back
      return;
    }
    if (response.status >= 500 || response.status === 429) throw new Error(`${response.status}`);
    const page = new DOMParser().parseFromString(text, "text/html");
    if (!response.ok) {
      isLeaving = true;
      for (const id of sections) close(id);
      say(`What is shown here is not up to date: ${response.status} ${page.querySelector("h1")?.textContent ?? ""}`);
      return;
    }
    if ([...sections].every((id) => !isGoing(id) || !find(id).dataset.live || sources.get(id)?.readyState === EventSource.OPEN)) {
      failures = 0;
      say("");
    }
    for (const id of ids.filter(isGoing)) {
      swap(id, page.getElementById(id));
      open(id);
    }
  } catch {
    lost();
    ids.forEach((id) => wanted.add(id));
  } finally {
    isFetching = false;
    if (wanted.size) want([...wanted][0], failures ? pause() : 0);
    else ids.forEach(poll);
  }
}

function poll(id) {
  const seconds = Number(find(id)?.dataset.poll);
  clearTimeout(polls.get(id));
  if (seconds > 0) polls.set(id, setTimeout(() => isGoing(id) && want(id), seconds * 1000));
}

const pause = () => Math.min(LONGEST, LEAST * 2 ** Math.min(failures, 6)) * (0.5 + Math.random() / 2);

function lost() {
  if (isLeaving) return;
  failures += 1;
  say("The server cannot be reached, what is shown may be old. Trying again …");
}

/** A line above the content, "" takes it away. */
function say(text) {
  if (!text) {
    banner?.remove();
    banner = null;
    return;
  }
  if (banner === null) {
    banner = document.createElement("p");
    banner.className = "banner";
    banner.setAttribute("role", "alert");
    document.getElementById("main").prepend(banner);
  }
  if (banner.textContent !== text) banner.textContent = text;
}

// --- events --------------------------------------------------------------------------------------------------------------------------

function open(id) {
  const address = find(id)?.dataset.live;
  if (!address || sources.has(id)) return;
  const source = new EventSource(address);
  sources.set(id, source);
  source.onopen = () => want(id); // what has changed since the page was made
  source.onmessage = ({ data }) => {
    let type = "";
    try {
      type = JSON.parse(data).type;
    } catch {
      // an application's own event
    }
    if (type !== "snapshot" && type !== "reset") want(id, 100);
  };
  source.onerror = () => {
    close(id); // a browser that tried again would ask for a password, if the login has ended: the page finds that out
    lost();
    want(id, pause());
  };
}

function close(id) {
  sources.get(id)?.close();
  sources.delete(id);
}

/** Begin or hold what the buttons and the visibility of the page say. */
function turn(isFirst = false) {
  for (const id of sections) {
    if (!isGoing(id)) close(id);
    else {
      open(id);
      if (!isFirst) want(id);
      else poll(id);
    }
  }
}

// --- putting into place --------------------------------------------------------------------------------------------------------------

function swap(id, fresh) {
  const section = find(id);
  if (!section || !fresh) return;
  document.dispatchEvent(new CustomEvent("arriving", { detail: fresh })); // what other scripts make of a page is made of it, too
  section.querySelectorAll(".changed").forEach((row) => row.classList.remove("changed"));
  const focus = document.activeElement;
  const changes = { rows: new Set(), gone: 0 };
  merge(section, fresh, changes);
  if (focus !== document.activeElement && section.contains(focus)) focus.focus({ preventScroll: true });
  if ("live" in section.dataset && (changes.rows.size || changes.gone)) {
    for (const row of changes.rows) row.classList.add("changed");
    const text = `Changed rows: ${changes.rows.size}${changes.gone ? `, no longer here: ${changes.gone}` : ""}`;
    document.getElementById("status").textContent = `${text} (${new Date().toLocaleTimeString()})`;
  }
  section.dispatchEvent(new CustomEvent("refreshed", { bubbles: true }));
}

const isOurs = (name, element) => // what the reader or a script has set
  (name === "open" && element.matches("details, dialog")) || (["hidden", "aria-pressed"].includes(name) && element.matches("button")) || name === "tabindex";

/** Make an element like another one, and keep what is equal: focus, selection, scrolled regions, opened details. Returns whether it was different. */
function merge(old, fresh, changes) {
  let isChanged = false;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !isOurs(name, old)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !isOurs(name, old)) old.setAttribute(name, value);
  }
  const known = rowsOf(old);
  const coming = known && rowsOf(fresh);
  if (coming) return mergeRows(old, fresh, known, coming, changes);
  let at = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    if (at?.nodeName !== node.nodeName) {
      old.insertBefore(document.importNode(node, true), at);
      isChanged = true;
      continue;
    }
    if (node.nodeType === Node.ELEMENT_NODE) isChanged = merge(at, node, changes) || isChanged;
    else if (at.nodeValue !== node.nodeValue) {
      at.nodeValue = node.nodeValue;
      isChanged = true;
    }
    at = at.nextSibling;
  }
  while (at) {
    at = removed(at, "nextSibling");
    isChanged = true;
  }
  return isChanged;
}

/** The same for the body of a table whose rows have keys. */
function mergeRows(old, fresh, known, coming, changes) {
  let isChanged = false;
  let at = old.firstElementChild;
  const dropGone = () => {
    while (at && !coming.has(known.get(at))) {
      at = removed(at, "nextElementSibling");
      changes.gone += 1;
      isChanged = true;
    }
  };
  for (const node of [...fresh.children]) {
    dropGone();
    const row = known.get(coming.get(node));
    if (row === undefined) {
      changes.rows.add(old.insertBefore(document.importNode(node, true), at));
      isChanged = true;
      continue;
    }
    if (row === at) at = at.nextElementSibling;
    else old.insertBefore(row, at);
    if (merge(row, node, changes)) {
      changes.rows.add(row);
      isChanged = true;
    }
  }
  dropGone();
  return isChanged;
}

function removed(node, following) {
  const next = node[following];
  node.remove();
  return next;
}

/** Of the body of a table: row -> key and key -> row, if each row has a key of its own; else null. */
function rowsOf(body) {
  if (body.nodeName !== "TBODY") return null;
  const found = new Map();
  for (const row of body.children) {
    const key = row.querySelector("a[href]")?.getAttribute("href") ?? row.firstElementChild?.textContent;
    if (key === undefined || found.has(key)) return null;
    found.set(key, row).set(row, key);
  }
  return found;
}

// --- begin ---------------------------------------------------------------------------------------------------------------------------

for (const button of document.querySelectorAll("button[data-hold], button[data-follow]")) {
  button.hidden = false;
  const id = button.dataset.follow;
  const isKept = id !== undefined && sessionStorage.getItem(note(id)) === "true";
  if (isKept || !button.hasAttribute("aria-pressed")) button.setAttribute("aria-pressed", String(isKept));
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(!isPressed(button)));
    if (id !== undefined) sessionStorage.setItem(note(id), String(isPressed(button)));
    turn();
  });
}
document.addEventListener("visibilitychange", () => turn());
addEventListener("pagehide", () => sections.forEach(close));
addEventListener("pageshow", (event) => event.persisted && turn());
turn(true);
