// A file may be dropped anywhere on the page: it goes into the form as if it had been chosen there, and the form is sent.

const form = document.getElementById("import");
const input = form.querySelector("input[type=file]");

document.addEventListener("dragover", (event) => {
  event.preventDefault();
  form.classList.add("drop");
});

document.addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) form.classList.remove("drop");
});

document.addEventListener("drop", (event) => {
  event.preventDefault();
  form.classList.remove("drop");
  if (!event.dataTransfer.files.length) return;
  if (event.dataTransfer.files.length > 1) {
    document.getElementById("status").textContent = "One file at a time";
    return;
  }
  input.files = event.dataTransfer.files;
  form.requestSubmit();
});
