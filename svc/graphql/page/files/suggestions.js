/* The list of suggestions below a place in an editor: arrow keys, Enter and Tab, or a click. The focus stays in the editor (WAI-ARIA: aria-activedescendant). */

import {element} from "./elements.js"

export class Suggestions {
  /** `accept(item)` is called with what was chosen. */
  constructor(area, id, accept) {
    this.area = area
    this.accept = accept
    this.items = []
    this.chosen = 0
    this.list = element("ul", {id, class: "suggestions", role: "listbox", "aria-label": "Suggestions", hidden: true})
    area.setAttribute("aria-controls", id)
  }

  get isOpen() {
    return !this.list.hidden
  }

  open(items, place) {
    this.items = items
    this.list.replaceChildren(...items.map((item, index) => element(
      "li",
      {id: `${this.list.id}-${index}`, role: "option", title: item.description, onmousedown: (event) => this.clicked(event, index)},
      element("span", {class: "label"}, item.label),
      element("span", {class: "detail"}, item.detail ?? ""),
    )))
    this.list.hidden = false
    this.place(place)
    this.choose(0)
  }

  /** Moves the list, within the width of the editor. */
  place({left, top}) {
    const room = this.list.parentElement.clientWidth - this.list.offsetWidth
    this.list.style.left = `${Math.max(0, Math.min(left, room))}px`
    this.list.style.top = `${top}px`
  }

  close() {
    this.list.hidden = true
    this.area.removeAttribute("aria-activedescendant")
  }

  choose(index) {
    this.chosen = (index + this.items.length) % this.items.length
    for (const [place, option] of [...this.list.children].entries()) option.setAttribute("aria-selected", String(place === this.chosen))
    const option = this.list.children[this.chosen]
    option.scrollIntoView({block: "nearest"})
    this.area.setAttribute("aria-activedescendant", option.id)
  }

  clicked(event, index) {
    event.preventDefault()
    this.accept(this.items[index])
  }

  /** True if the key was for the list. */
  pressed({key, ctrlKey, metaKey}) {
    if (!this.isOpen || ctrlKey || metaKey) return false
    if (key === "ArrowDown") this.choose(this.chosen + 1)
    else if (key === "ArrowUp") this.choose(this.chosen - 1)
    else if (key === "Enter" || key === "Tab") this.accept(this.items[this.chosen])
    else if (key === "Escape") this.close()
    else return false
    return true
  }
}
