// Shows /openapi?json with Swagger UI. Requests are those of the page: they go to where it came from, with its session or its Basic credentials.

const ROOT = new URL("../..", document.currentScript.src); // of the server, which may be below a path of a proxy
const MARK = { "X-Requested-With": "XMLHttpRequest" }; // a 401 is shown here, and no dialog of the browser opens

function say(text, link) {
  const message = document.createElement("p");
  message.className = "message";
  message.textContent = text;
  if (link) {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = "Log in";
    message.append(" ", anchor);
  }
  document.querySelector("#viewer").replaceChildren(message);
}

async function load() {
  const response = await fetch(new URL("openapi?json", ROOT), { headers: MARK });
  if (response.status === 401) return say("You are not logged in.", new URL(`login?redirect=${encodeURIComponent(location.pathname)}`, ROOT).href);
  const document_ = await response.json();
  if (!response.ok) return say(document_.detail);
  document_.servers = [{ url: ROOT.href.slice(0, -1) }];
  window.ui = SwaggerUIBundle({
    spec: document_,
    dom_id: "#viewer",
    deepLinking: true,
    docExpansion: "none",
    defaultModelsExpandDepth: 0,
    displayOperationId: true,
    tryItOutEnabled: true,
    validatorUrl: null, // it would ask another host
    requestInterceptor: (request) => {
      Object.assign(request.headers, MARK);
      return request;
    },
  });
}

load().catch((error) => say(`The document could not be loaded: ${error.message}`));
