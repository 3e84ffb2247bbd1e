/* Logging in and out: by the session of `/login`, if the application has it, or by the dialog of the browser. */

import {byId} from "./elements.js"
import {askBrowser, session} from "./requests.js"

/** Listens to the form. `changed()` is called when the user may be another one. */
export function login(changed) {
  const say = (text) => (byId("login-note").textContent = text)

  async function attempt(ask, texts) {
    try {
      const status = await ask()
      say(texts[status] ?? (status < 400 ? texts.done : `The server answers with status ${status}.`))
      if (status < 400) changed()
    } catch (error) {
      say(`No answer: ${error.message}`)
    }
  }

  byId("login-form").addEventListener("submit", (event) => {
    event.preventDefault()
    const credentials = {username: byId("username").value, password: byId("password").value}
    byId("password").value = ""
    attempt(() => session(credentials), {
      done: `Logged in as ${credentials.username}.`,
      401: "Wrong name or password.",
      404: "There is no /login here. Use the dialog of the browser, or an Authorization field under Headers.",
    })
  })
  byId("logout").addEventListener("click", () => attempt(() => session(null), {
    done: "Logged out.",
    400: "There is no session to end.",
    404: "There is no /logout here. A login by the dialog lasts until the browser is closed.",
  }))
  byId("ask-browser").addEventListener("click", () => attempt(askBrowser, {
    done: "The server answers. If no dialog came, it needs no login for this, or knows you already.",
    401: "Not logged in.",
  }))
}
