/* A text field that shows colours, line numbers and faults: a textarea, with the same text below it in colours. The textarea does what textareas do:
   undo, selections, input methods, screen readers. Escape and then Tab leaves it. */

import {element} from "./elements.js"
import {Suggestions} from "./suggestions.js"

const MOST_COLOURED = 200_000 // characters; longer texts are shown plain
const PAIRS = {"{": "}", "(": ")", "[": "]", '"': '"'}
const CLOSERS = new Set(Object.values(PAIRS))
const INDENT = "  "

export class Editor extends EventTarget {
  /** `styled(text)`: its tokens with `style`. `complete(text, position)`: {start, end, items}. Events: "change". */
  constructor(host, {label, styled, complete = null}) {
    super()
    this.styled = styled
    this.complete = complete
    this.faults = []
    this.mayLeave = false
    this.numbers = element("pre", {class: "numbers", "aria-hidden": "true"})
    this.colours = element("pre", {class: "colours", "aria-hidden": "true"})
    this.area = element("textarea", {
      id: `${host.id}-text`, "aria-label": `${label}. Escape, then Tab, leaves it.`, "aria-autocomplete": complete && "list", "aria-haspopup": complete && "listbox",
      autocapitalize: "off", autocomplete: "off", autocorrect: "off", spellcheck: "false", wrap: "off", rows: "1",
    })
    this.suggestions = complete && new Suggestions(this.area, `${host.id}-suggestions`, (item) => this.accept(item))
    this.stage = element("div", {class: "stage"}, this.colours, this.area)
    host.classList.add("editor")
    host.append(this.numbers, this.stage)
    if (this.suggestions) host.append(this.suggestions.list)
    this.area.addEventListener("input", (event) => this.changed(event))
    this.area.addEventListener("scroll", () => this.follow())
    this.area.addEventListener("keydown", (event) => this.pressed(event))
    this.area.addEventListener("blur", () => this.suggestions?.close())
    this.area.addEventListener("click", () => this.suggestions?.close())
    this.area.addEventListener("compositionend", () => this.paint())
    this.paint()
  }

  get text() {
    return this.area.value
  }

  set text(text) {
    this.area.value = text
    this.show([])
  }

  get position() {
    return this.area.selectionStart
  }

  /** Replaces all the text by an edit that can be undone. */
  replace(text) {
    this.area.focus()
    this.area.select()
    this.write(text)
    this.area.setSelectionRange(0, 0)
    this.area.scrollTop = 0
  }

  focusAt(offset) {
    this.area.focus()
    this.area.setSelectionRange(offset, offset)
    const line = this.text.slice(0, offset).split("\n").length
    this.area.scrollTop = Math.max(0, (line - 3) * this.lineHeight())
  }

  lineHeight() {
    return parseFloat(getComputedStyle(this.area).lineHeight) || 18
  }

  /** Marks faults: [{offset, line}]. */
  show(faults) {
    this.faults = faults
    this.paint()
  }

  // --- what is seen ------------------------------------------------------------------------------------------------------------------

  paint() {
    const {text} = this
    this.number(text.split("\n").length)
    const pieces = text.length > MOST_COLOURED ? [] : this.styled(text)
    const shown = document.createDocumentFragment()
    let position = 0
    for (const {start, end, style} of pieces) {
      shown.append(text.slice(position, start))
      const isFaulty = this.faults.some(({offset}) => start <= offset && offset < end)
      shown.append(element("span", {class: isFaulty ? `t-${style} fault-here` : `t-${style}`}, text.slice(start, end)))
      position = end
    }
    shown.append(text.slice(position) + "\n")
    this.colours.replaceChildren(shown)
    this.follow()
  }

  /** Shows as many line numbers, those of faults marked. */
  number(lines) {
    const rows = this.numbers.children
    while (rows.length > lines) rows[rows.length - 1].remove()
    while (rows.length < lines) this.numbers.append(element("span", {class: "number"}, `${rows.length + 1}\n`))
    for (const row of this.numbers.querySelectorAll(".faulty")) row.classList.remove("faulty")
    for (const {line} of this.faults) rows[line - 1]?.classList.add("faulty")
  }

  follow() {
    this.colours.scrollTop = this.area.scrollTop
    this.colours.scrollLeft = this.area.scrollLeft
    this.numbers.scrollTop = this.area.scrollTop
    if (this.suggestions?.isOpen) this.suggestions.place(this.boxOf(this.completing.start))
  }

  // --- editing -----------------------------------------------------------------------------------------------------------------------

  /** Inserts a string in place of the selection, as if it had been typed. */
  write(text) {
    if (document.execCommand("insertText", false, text) || (text === "" && document.execCommand("delete"))) return
    this.area.setRangeText(text, this.area.selectionStart, this.area.selectionEnd, "end")
    this.area.dispatchEvent(new InputEvent("input", {inputType: "insertText"}))
  }

  changed(event) {
    this.faults = []
    this.suggestions?.close()
    this.paint()
    this.dispatchEvent(new Event("change"))
    const isTyped = event.inputType === "insertText" && !event.isComposing
    if (isTyped && /[\w$@.]$/.test(this.text.slice(0, this.position))) this.suggest()
  }

  pressed(event) {
    if (event.isComposing) return
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey
    if (this.suggestions?.pressed(event)) event.preventDefault()
    else if (event.key === "Escape") this.mayLeave = true
    else if (event.key === "Tab" && plain && !this.mayLeave) this.indent(event)
    else if (event.key === " " && event.ctrlKey) this.suggest(event)
    else if (plain && this.typedPair(event.key)) event.preventDefault()
    else if (event.key === "Enter" && plain && !event.shiftKey) this.newLine(event)
    if (event.key !== "Escape" && event.key !== "Tab" && event.key !== "Shift") this.mayLeave = false
  }

  /** Tab: two spaces, or each selected line two spaces further in; with Shift, out. */
  indent(event) {
    event.preventDefault()
    const {selectionStart: start, selectionEnd: end, value} = this.area
    if (start === end && !event.shiftKey) return this.write(INDENT)
    const first = value.lastIndexOf("\n", start - 1) + 1
    const lines = value.slice(first, end)
    const moved = event.shiftKey ? lines.replace(/^ {1,2}/gm, "") : lines.replace(/^/gm, INDENT)
    if (moved === lines) return undefined
    this.area.setSelectionRange(first, end)
    this.write(moved)
    return this.area.setSelectionRange(start === end ? first + moved.length : first, first + moved.length)
  }

  newLine(event) {
    const {selectionStart: start, value} = this.area
    const line = value.slice(value.lastIndexOf("\n", start - 1) + 1, start)
    const indent = /^ */.exec(line)[0]
    const isOpen = /[{([]\s*$/.test(line)
    const isClosed = isOpen && /^\s*[})\]]/.test(value.slice(this.area.selectionEnd))
    event.preventDefault()
    this.write(`\n${indent}${isOpen ? INDENT : ""}${isClosed ? `\n${indent}` : ""}`)
    const place = start + 1 + indent.length + (isOpen ? INDENT.length : 0)
    this.area.setSelectionRange(place, place)
  }

  /** Brackets and quotation marks come in pairs, and go so. True if this key is done. */
  typedPair(key) {
    const {selectionStart: start, selectionEnd: end, value} = this.area
    const [before, after] = [value[start - 1], value[end]]
    if (key === "Backspace" && start === end && PAIRS[before] !== undefined && PAIRS[before] === after) {
      this.area.setSelectionRange(start - 1, start + 1)
      this.write("")
      return true
    }
    if (CLOSERS.has(key) && start === end && after === key) {
      this.area.setSelectionRange(start + 1, start + 1)
      return true
    }
    if (PAIRS[key] === undefined || (start === end && after !== undefined && /[\w$"{([]/.test(after))) return false
    if (key === '"' && before !== undefined && /[\w"]/.test(before)) return false
    this.write(key + value.slice(start, end) + PAIRS[key])
    this.area.setSelectionRange(start + 1, end + 1)
    return true
  }

  // --- suggestions -------------------------------------------------------------------------------------------------------------------

  suggest(event) {
    event?.preventDefault()
    if (!this.complete) return
    const found = this.complete(this.text, this.position)
    const isDone = found.items.length === 1 && found.items[0].label === this.text.slice(found.start, found.end)
    this.completing = found
    if (!found.items.length || isDone) this.suggestions.close()
    else this.suggestions.open(found.items, this.boxOf(found.start))
  }

  accept(item) {
    const {start, end} = this.completing
    this.area.focus()
    this.area.setSelectionRange(start, end)
    this.write(item.insert)
    this.suggestions.close()
    if (item.insert.endsWith(": ")) this.suggest()
  }

  /** Where a place of the text is on the screen, below the line, relative to the editor. */
  boxOf(offset) {
    const walker = document.createTreeWalker(this.colours, NodeFilter.SHOW_TEXT)
    let rest = offset
    let node = walker.nextNode()
    while (node && rest > node.length) {
      rest -= node.length
      node = walker.nextNode()
    }
    const range = document.createRange()
    if (node) {
      range.setStart(node, rest)
      range.setEnd(node, Math.min(rest + 1, node.length))
    }
    const place = range.getBoundingClientRect()
    const around = this.stage.parentElement.getBoundingClientRect()
    return {left: place.left - around.left, top: place.top - around.top + this.lineHeight()}
  }
}
