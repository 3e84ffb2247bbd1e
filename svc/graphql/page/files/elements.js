/* Elements of the page. What comes from a server or a user becomes text nodes and attributes, never markup. */

/** An element. Attributes that begin with `on` are listeners, false and null leave one out; children are elements and strings. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value)
    else made.setAttribute(name, value === true ? "" : value)
  }
  made.append(...children.filter((child) => child || child === 0))
  return made
}

export const byId = (id) => document.getElementById(id)

/** Copies a string to the clipboard; false if the browser does not allow it. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return false
  }
}
