// Drives Chromium through the previews of a server. See TestPreviewsInABrowser.
const { chromium } = await import(process.env.PLAYWRIGHT);
const { server, key, vite, next, hostile, startVite } = JSON.parse(process.env.ARGUMENT);
const patience = 90_000;

const began = Date.now();
const note = (...words) => console.log(((Date.now() - began) / 1000).toFixed(1), ...words);
function check(what, good, ...more) {
  if (good) note("ok", what);
  else console.log("FAIL", what, ...more.map((m) => JSON.stringify(m)));
}

async function api(method, path, body, type = "application/json") {
  const answer = await fetch(server + path, { method, body, headers: { Authorization: "Bearer " + key, "Content-Type": type } });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.status === 204 ? undefined : answer.json();
}
const sign = (box, port, more = {}) => api("POST", `/api/v1/sandboxes/${box}/ports/${port}/url`, JSON.stringify(more));
const edit = (box, file, text) => api("PUT", `/api/v1/sandboxes/${box}/files/${file}`, text, "application/octet-stream");
const until = async (what, look) => {
  for (const end = Date.now() + patience; Date.now() < end; await new Promise((go) => setTimeout(go, 200))) if (await look()) return check(what, true);
  check(what, false);
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const context = await browser.newContext();
context.setDefaultTimeout(patience);
const page = await context.newPage();

// Vite: absolute links, hot reload, a login, storage, events, a WebSocket.
async function tryVite() {
  const made = await sign(vite, 5173);
  await page.goto(made.url);
  check("the address has no signature", page.url() === made.origin + "/", page.url());
  await page.waitForFunction(() => document.querySelector("#text").textContent === "first text");
  check("the page of Vite is there", true);
  await page.evaluate(() => { window.kept = true; localStorage.setItem("a", "stored"); });
  await new Promise((go) => setTimeout(go, 500));
  await edit(vite, "vite/text.js", 'export const text = "second text";');
  await page.waitForFunction(() => document.querySelector("#text").textContent === "second text");
  check("hot reload without a new page", await page.evaluate(() => window.kept));
  check("a fetch of its own", await page.evaluate(async () => (await (await fetch("/secret/own")).text()) === "the secret"));
  check("events", await page.evaluate(() => new Promise((done) => { const s = new EventSource("/events"); s.onmessage = (m) => { s.close(); done(m.data === "one"); }; })));
  check("a WebSocket", await page.evaluate(() => new Promise((done) => {
    const ws = new WebSocket(`ws://${location.host}/echo`);
    ws.onopen = () => ws.send("hello");
    ws.onmessage = (m) => done(m.data === "echo hello");
    ws.onerror = () => done(false);
  })));
  const headers = await page.evaluate(async () => (await fetch("/headers", { method: "POST", headers: { Authorization: "Bearer of-the-program" } })).json());
  check("the program gets its own Authorization, and nothing of ours",
    headers.authorization === "Bearer of-the-program" && headers.host === "localhost:5173" && headers.origin === "http://localhost:5173" && !/berth/.test(headers.cookie ?? ""), headers);
  await page.fill("input[name=user]", "ann");
  await Promise.all([page.waitForURL("**/me"), page.click("button")]);
  check("a form, an absolute redirect and a cookie", page.url() === made.origin + "/me" && (await page.textContent("#user")) === "ann", page.url());
  await page.goto(made.origin + "/");
  check("storage", await page.evaluate(() => localStorage.getItem("a") === "stored"));
  check("its page cannot read our cookie", await page.evaluate(() => document.cookie === ""));
  return made;
}

// Next.js: a server action, which compares the origin with the host, and hot reload.
async function tryNext() {
  const made = await sign(next, 3000);
  await page.goto(made.url);
  await page.waitForSelector("#count");
  await until("the page of Next.js is alive", async () => { await page.click("#count"); return /count [1-9]/.test(await page.textContent("#count")); });
  await page.fill("input[name=name]", "ann");
  await page.click("#save");
  await page.waitForFunction(() => document.querySelector("#name").textContent === "ann");
  check("a server action with a cookie", true);
  const count = await page.textContent("#count");
  const text = '"use client";\nimport { useState } from "react";\nexport default function Counter() {\n  const [n, set] = useState(0);\n  return <button id="count" onClick={() => set(n + 1)}>second count {n}</button>;\n}\n';
  await edit(next, "next/app/counter.js", text);
  await page.waitForFunction(() => /second count/.test(document.querySelector("#count").textContent));
  check("hot reload keeps the state", (await page.textContent("#count")) === count.replace("first", "second"));
}

// A hostile page in the same browser, with the person signed in.
async function tryHostile(victim) {
  const console_ = server.replace("127.0.0.1", "localhost");
  await page.goto(console_ + "/login?next=/docs");
  await page.fill("#key", key);
  await Promise.all([page.waitForURL("**/docs"), page.click("button")]);
  check("the person is signed in", await page.evaluate(async () => (await fetch("/api/v1/sandboxes")).ok));
  const before = (await api("GET", "/api/v1/sandboxes?limit=500")).items.length;

  const made = await sign(hostile, 8000);
  await page.goto(made.url);
  await page.waitForFunction(() => document.title === "hostile");
  const got = await page.evaluate(async ({ console_, victim }) => {
    document.cookie = "user=mallory; domain=preview.localhost; path=/";
    document.cookie = "berth_session=forged; domain=localhost; path=/";
    const attempt = async (do_) => { try { return await do_(); } catch (e) { return "refused"; } };
    const read = (url, init) => attempt(async () => { const r = await fetch(url, init); return r.type === "opaque" ? "opaque" : "read: " + (await r.text()).slice(0, 80); });
    const framed = (url) => new Promise((done) => {
      const f = document.createElement("iframe");
      f.onload = () => done(f);
      f.src = url;
      document.body.append(f);
    });
    const socket = (url) => new Promise((done) => {
      const ws = new WebSocket(url);
      ws.onopen = () => done("open");
      ws.onerror = () => done("refused");
    });
    const out = { cookie: document.cookie };
    for (const [name, to] of [["console", console_ + "/api/v1/sandboxes"], ["victim", victim + "/secret/theirs"]]) {
      out[name + " read"] = await read(to, { credentials: "include" });
      out[name + " post"] = await read(to, { method: "POST", body: "{}", headers: { "Content-Type": "application/json" }, credentials: "include" });
      await read(to, { mode: "no-cors", credentials: "include" });
      await read(to, { method: "POST", mode: "no-cors", body: "{}", credentials: "include" });
      await framed(to);
      const image = new Image();
      await new Promise((done) => { image.onload = image.onerror = done; image.src = to; });
    }
    await framed(console_ + "/docs");
    out.socket = await socket(victim.replace("http", "ws") + "/echo/theirs");
    out.terminal = await socket(console_.replace("http", "ws") + "/api/v1/sandboxes/vite/terminal");
    document.body.insertAdjacentHTML("beforeend", `<iframe name="sink"></iframe><form method="post" target="sink" action="${console_}/api/v1/sandboxes"></form><form method="post" target="sink" action="${victim}/secret/theirs"></form>`);
    for (const form of document.forms) form.submit();
    return out;
  }, { console_, victim: victim.origin });
  await new Promise((go) => setTimeout(go, 1000));
  check("it reads no cookie of ours", !/berth/.test(got.cookie), got);
  for (const what of ["console read", "console post", "victim read", "victim post", "socket", "terminal"]) check("refused: " + what, got[what] === "refused", got[what]);
  for (const frame of page.frames().slice(1)) {
    const text = await frame.evaluate(() => document.body.innerText).catch(() => "");
    check("a frame shows nothing", !/the secret|Berth routes|"items"/.test(text), frame.url(), text.slice(0, 200));
  }
  check("it made nothing", (await api("GET", "/api/v1/sandboxes?limit=500")).items.length === before);
  await page.goto(victim.origin + "/hits");
  const hits = JSON.parse(await page.textContent("body"));
  check("it reached no other sandbox", hits.includes("GET /secret/own") && !hits.some((h) => h.includes("theirs")), hits);
  await page.goto(console_ + "/docs");
  check("the person is still signed in", await page.evaluate(async () => (await fetch("/api/v1/sandboxes")).ok));
}

// URLs that have ended get a page, and a stopped sandbox is woken.
async function tryEnds(made) {
  await api("DELETE", `/api/v1/sandboxes/${vite}/ports/5173/url?url=${made.id}`);
  const answer = await page.goto(made.origin + "/");
  check("a revoked URL is a plain page", answer.status() === 401 && /revoked/.test(await page.textContent("h1")));
  const again = await sign(vite, 5173);
  await api("POST", `/api/v1/sandboxes/${vite}/stop`, "");
  await page.goto(again.url);
  check("a stopped sandbox shows the waiting page", /Waking|Nothing listens/.test(await page.textContent("h1")));
  const started = await fetch(server + `/api/v1/sandboxes/${vite}/exec/stream`, {
    method: "POST", headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" }, body: JSON.stringify({ command: startVite }),
  });
  await started.body.cancel(); // the command goes on
  await page.waitForFunction(() => document.querySelector("#text")?.textContent === "second text");
  check("and then the page by itself", true);
}

try {
  const made = await tryVite();
  await tryNext();
  await tryHostile(made);
  await tryEnds(made);
} finally {
  await browser.close();
}
console.log("DONE");
