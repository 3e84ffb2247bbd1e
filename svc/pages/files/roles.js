// The page of a role: whoever changes the right of an attribute means that only the attributes that are chosen have rights.

const status = document.getElementById("status");

document.addEventListener("change", (event) => {
  const cell = event.target;
  if (!(cell instanceof HTMLInputElement) || !cell.name.startsWith("a:")) return;
  const only = cell.closest("details").querySelector("[data-only]");
  if (only.checked) return;
  only.checked = true;
  status.textContent = "Only the attributes that are chosen have rights now";
});
