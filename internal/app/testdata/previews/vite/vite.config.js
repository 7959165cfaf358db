// A development server with a login, events and a WebSocket. /hits lists the requests for /secret that arrived.
import { WebSocketServer } from "ws";

const hits = [];
const sockets = new WebSocketServer({ noServer: true });

function serve(request, response, next) {
  const path = request.url.split("?")[0];
  const user = /user=(\w+)/.exec(request.headers.cookie ?? "")?.[1];
  if (request.method === "POST" && path === "/login") {
    let body = "";
    request.on("data", (data) => { body += data; });
    request.on("end", () => {
      response.writeHead(303, { Location: `http://${request.headers.host}/me`, "Set-Cookie": `${body}; HttpOnly; Path=/` });
      response.end();
    });
  } else if (path === "/me") {
    response.setHeader("Content-Type", "text/html");
    response.end(`<p id="user">${user ?? "nobody"}</p>`);
  } else if (path.startsWith("/secret")) {
    hits.push(`${request.method} ${request.url}`);
    response.end("the secret");
  } else if (path === "/hits") {
    response.end(JSON.stringify(hits));
  } else if (path === "/headers") {
    response.end(JSON.stringify(request.headers));
  } else if (path === "/events") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("data: one\n\n");
  } else {
    next();
  }
}

export default {
  cacheDir: "/tmp/vite",
  plugins: [{
    name: "program",
    configureServer(server) {
      server.middlewares.use(serve);
      server.httpServer.on("upgrade", (request, socket, head) => {
        if (!request.url.startsWith("/echo")) return;
        hits.push("WebSocket " + request.url);
        sockets.handleUpgrade(request, socket, head, (ws) => ws.on("message", (data) => ws.send("echo " + data)));
      });
    },
  }],
};
