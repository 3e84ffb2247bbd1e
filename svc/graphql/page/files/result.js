/* A JSON value as a tree that can be folded. What is large comes in parts: long lists show their beginning, and what is folded is made when it is opened. */

import {element} from "./elements.js"
import {readJson, scalarText} from "./json.js"

const FIRST = 200 // members that are shown of one list or object
const MORE = 1000 // of those that "Show all" adds between two frames of the screen
const LONGEST_STRING = 2000 // characters
const LONGEST_TEXT = 20_000_000 // characters; of longer answers the beginning is shown as it came
const BEGINNING = 100_000
const OPEN_ROWS = 1000 // rows after which what holds others is folded at first

/** What shows a response: its JSON, or another text as it is. */
export function resultElement(text) {
  if (text.length > LONGEST_TEXT) return plain(text.slice(0, BEGINNING), `${text.length - BEGINNING} more characters are not shown; "Copy" copies all.`)
  const {tree} = readJson(text)
  if (!tree) return plain(text.slice(0, BEGINNING), text.length > BEGINNING ? `${text.length - BEGINNING} more characters are not shown.` : "")
  return element("div", {class: "json"}, row(null, tree, {left: OPEN_ROWS}, true))
}

function plain(text, note) {
  return element("div", {}, element("pre", {class: "plain"}, text), note && element("p", {class: "note"}, note))
}

function membersOf(node) {
  if (node.kind === "object") return node.entries
  return node.kind === "array" ? node.items.map((item) => [null, item]) : []
}

function row(key, node, budget, isLast) {
  budget.left -= 1
  const name = key === null ? [] : [element("span", {class: "t-argument"}, JSON.stringify(key)), ": "]
  const comma = isLast ? "" : ","
  const count = node.kind === "object" ? node.entries.length : node.kind === "array" ? node.items.length : 0
  return count ? folder(name, node, count, budget, comma) : element("div", {class: "row"}, ...name, scalar(node), comma)
}

function scalar(node) {
  const text = scalarText(node)
  const style = {string: "t-string", number: "t-number", literal: "t-literal"}[node.kind] ?? "t-punctuator"
  if (text.length <= LONGEST_STRING) return element("span", {class: style}, text)
  const shown = element("span", {class: style}, text.slice(0, LONGEST_STRING) + "…")
  const all = button(`Show all ${text.length} characters`, () => {
    shown.textContent = text
    all.remove()
  })
  return element("span", {}, shown, " ", all)
}

function folder(name, node, count, budget, comma) {
  const [opening, closing] = node.kind === "object" ? ["{", "}"] : ["[", "]"]
  const inside = element("div", {class: "inside"})
  const isOpen = budget.left > 0
  const size = element("span", {class: "size"}, ` … ${closing}${comma} ${count} ${node.kind === "object" ? "members" : "items"}`)
  const made = element("details", {class: "row", open: isOpen}, element("summary", {}, ...name, opening, size), inside, element("div", {}, closing + comma))
  const fill = () => {
    if (!inside.firstChild) show(inside, membersOf(node), FIRST, budget)
  }
  if (isOpen) fill()
  made.addEventListener("toggle", () => {
    if (!made.open) return
    budget.left = Math.max(budget.left, FIRST)
    fill()
  })
  return made
}

function show(inside, members, first, budget) {
  const add = (start, end) => members.slice(start, end).map(([key, node], index) => row(key, node, budget, start + index === members.length - 1))
  inside.append(...add(0, first))
  if (members.length <= first) return
  const all = button(`Show all ${members.length}`, () => {
    let shown = first
    all.disabled = true
    const next = () => {
      if (!inside.isConnected) return
      all.before(...add(shown, shown + MORE))
      shown += MORE
      if (shown < members.length) requestAnimationFrame(next)
      else all.remove()
    }
    next()
  })
  inside.append(all)
}

function button(text, onclick) {
  return element("button", {class: "more", onclick}, text)
}
