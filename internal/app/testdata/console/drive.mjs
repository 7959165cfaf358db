// Drives Chromium through the console of a server. See TestConsoleInABrowser.
const { chromium } = await import(process.env.PLAYWRIGHT);
const { server, key, reader, crash, shots } = JSON.parse(process.env.ARGUMENT);
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

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });

// Each page reports scripts that a hostile text would run, requests to other servers, and refusals of the policy.
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.on("dialog", (d) => (check("no script of another ran", false, d.message()), void d.dismiss()));
  page.on("pageerror", (e) => check("no error in the page", false, e.message));
  page.on("console", (m) => /Content Security Policy|content-security-policy/i.test(m.text()) && check("the policy refuses nothing", false, m.text()));
  page.on("request", (r) => !r.url().startsWith(server) && !/^(blob|data|about):/.test(r.url()) && check("only this server is asked", false, r.url()));
  return page;
}
let shot = 0;
async function picture(page, name) {
  if (!shots) return;
  shot++;
  for (const [theme, width] of [["light", 1280], ["dark", 1280], ["light", 400]]) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: 800 });
    await page.waitForTimeout(150);
    await page.screenshot({ path: `${shots}/${String(shot).padStart(2, "0")}-${name}-${theme}-${width}.png` });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 800 });
}
async function signIn(page, with_) {
  await page.goto(server + "/");
  await page.fill("input[type=password]", with_);
  await page.click("button.primary");
  await page.waitForSelector("header.bar");
}

const page = await open();
await page.goto(server + "/");
await page.waitForSelector("input[type=password]");
await picture(page, "sign-in");
await page.fill("input[type=password]", "bk_wrong");
await page.click("button.primary");
await page.waitForSelector(".problem");
check("a wrong key is refused", /not valid/.test(await page.textContent(".problem")));
await signIn(page, key);
check("the cookie cannot be read", await page.evaluate(() => document.cookie === ""));
await page.waitForSelector(".empty");
await picture(page, "empty");

// A conversation with the demo agent.
await page.click("text=New conversation");
await page.waitForSelector("form.panel select");
await page.selectOption("form.panel select", "demo");
const hostileTitle = '<img src=x onerror=alert("title")>';
await page.fill("form.panel input", hostileTitle);
await page.click("form.panel button.primary");
await page.waitForSelector(".composer textarea");
const prompt = async (text) => {
  await page.fill(".composer textarea", text);
  await page.press(".composer textarea", "Enter");
};
const done = (n) => page.waitForFunction((n) => document.querySelectorAll("article.assistant:not(.live) .facts").length >= n && !document.querySelector("article.live"), n);
await prompt("write notes.txt: hello from the console");
await page.waitForSelector("article.user");
await done(1);
check("the answer is there", /notes\.txt/.test(await page.textContent("article.assistant")));
check("the title is text", (await page.textContent(".chat header h2")) === hostileTitle);
await page.click("details.tool summary");
await picture(page, "chat");

// The file that the agent wrote, and one with a hostile name and content.
const conversation = page.url().split("/").pop();
const box = (await api("GET", `/api/v1/conversations/${conversation}`)).sandbox_id;
const hostileName = '<img src=x onerror=alert("name")>.md';
await api("PUT", `/api/v1/sandboxes/${box}/files/${encodeURIComponent(hostileName)}`, '<script>alert("content")</script>', "application/octet-stream");
await page.click(".chat header a");
await page.click(".tree button:has-text('notes.txt')");
await page.waitForSelector("pre.viewer");
check("the file is shown", /hello from the console/.test(await page.textContent("pre.viewer")));
await page.click("button:has-text('Edit')");
await page.fill("textarea.editor", "changed in the browser");
await page.click("button:has-text('Save')");
await page.waitForFunction(() => document.querySelector("pre.viewer")?.textContent === "changed in the browser");
check("an edit is saved", (await (await fetch(`${server}/api/v1/sandboxes/${box}/files/notes.txt`, { headers: { Authorization: "Bearer " + key } })).text()) === "changed in the browser");
await page.click("button:has-text('Edit')");
await page.fill("textarea.editor", "too late");
await api("PUT", `/api/v1/sandboxes/${box}/files/notes.txt`, "of another", "application/octet-stream");
await page.click("button:has-text('Save')");
await page.waitForSelector(".toast .problem");
check("what another wrote is not replaced", (await (await fetch(`${server}/api/v1/sandboxes/${box}/files/notes.txt`, { headers: { Authorization: "Bearer " + key } })).text()) === "of another");
await page.click(".toast > button");
await page.click("button:has-text('Discard')");
await page.click(".tree button:has-text('onerror')");
await page.waitForFunction(() => /script/.test(document.querySelector("pre.viewer")?.textContent ?? ""));
check("a hostile file is text", (await page.textContent("pre.viewer")) === '<script>alert("content")</script>');
await picture(page, "files");
await page.click("nav.tabs >> text=Versions");
await page.click("button:has-text('Changes')");
await page.waitForSelector(".changes li");
await picture(page, "versions");
await page.click("nav.tabs >> text=State");
await page.waitForSelector(".timeline li");
await page.waitForSelector(".lead");
await picture(page, "sandbox");
await page.click("nav.tabs >> text=Ports");
await page.waitForSelector(".empty, .list");
await page.click("nav.tabs >> text=Processes");
await page.waitForSelector(".empty, .list");

// What a model says is Markdown, and never HTML.
await page.goto(`${server}/#/conversations/${conversation}`);
await page.waitForSelector(".composer textarea");
await prompt('say <img src=x onerror=alert("model")> **bold** [link](javascript:alert(1)) ![pixel](https://evil.test/x.png)');
await done(2);
check("no element of the model", await page.evaluate(() => !document.querySelector(".messages img, .messages script, .messages a[href^='javascript']")));

// The list is live: a sandbox that another client makes, renames and deletes.
await page.click("header.bar >> text=Sandboxes");
await page.waitForSelector("table.list");
await api("POST", "/api/v1/sandboxes", JSON.stringify({ name: "made-elsewhere" }));
await page.waitForSelector("tr:has-text('made-elsewhere') .state.good");
check("a sandbox of another client appears", true);
await page.fill("input[type=search]", "made-else");
await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
await page.fill("input[type=search]", "");
await picture(page, "sandboxes");
await page.click("tr:has-text('made-elsewhere') button:has-text('Stop')");
await page.waitForSelector("tr:has-text('made-elsewhere') .state:has-text('stopped')");
check("it is stopped by a click", true);

// The server is killed under the open page. The page comes back by itself, and shows what happens then.
await page.evaluate(() => (window.kept = true));
await fetch(crash, { method: "POST" });
await api("DELETE", "/api/v1/sandboxes/made-elsewhere");
await page.waitForFunction(() => !/made-elsewhere/.test(document.querySelector("tbody").textContent));
check("after a crash the page goes on", await page.evaluate(() => window.kept === true && !document.querySelector(".bar .state.warn")));

// Killed in the middle of a turn: no word is missing or there twice.
await page.goto(`${server}/#/conversations/${conversation}`);
await page.waitForSelector(".composer textarea");
await prompt("run for i in 1 2 3 4 5 6; do echo line $i; sleep 1; done");
await page.waitForSelector("article.live");
await fetch(crash, { method: "POST" });
await done(3);
const words = await page.evaluate(() => [...document.querySelectorAll("article.assistant")].at(-1).textContent);
check("the turn went on over the crash", [1, 2, 3, 4, 5, 6].every((n) => words.includes("line " + n)), words);
check("the page was not loaded anew", await page.evaluate(() => window.kept === true));

// Usage.
await page.click("header.bar >> text=Usage");
await page.waitForSelector("tfoot td");
const used = await api("GET", "/api/v1/usage?group_by=day");
const cells = await page.$$eval("tfoot td", (all) => all.map((c) => c.textContent.replaceAll(",", "")));
check("usage is that of the API", cells[0] === String(used.total.messages) && cells[1] === String(used.total.usage.input_tokens) && cells[2] === String(used.total.usage.output_tokens), cells, used.total);
await picture(page, "usage");
await page.click("header.bar >> text=Overview");
await page.waitForSelector(".cards");
await picture(page, "overview");

// A link signs one browser in.
const link = await api("POST", "/api/v1/caller/link");
const linked = await open();
await linked.goto(server + link.path);
await linked.waitForSelector("header.bar");
check("the token of a link is not left in the address", linked.url() === server + "/", linked.url());
const late = await open();
await late.goto(server + link.path);
await late.waitForSelector(".signin .problem");
check("a link works once", /used before/.test(await late.textContent(".signin .problem")));

// A key that may only read is offered nothing else.
const second = await open();
await signIn(second, reader);
await second.goto(server + "/#/sandboxes");
await second.waitForSelector("table.list tbody tr");
check("a reader is offered no action", (await second.$$("tbody button, tbody input")).length === 0);
await second.goto(`${server}/#/conversations/${conversation}`);
await second.waitForSelector("article.assistant");
check("a reader cannot prompt", (await second.$$(".composer")).length === 0);

// A conversation that is deleted leaves the list of the other browser.
await linked.goto(server + "/#/conversations");
await linked.waitForSelector(".talk-list li");
await page.goto(`${server}/#/conversations/${conversation}`);
await page.click(".chat header button.danger");
await page.click("dialog[open] button.danger");
await linked.waitForFunction(() => !document.querySelector(".talk-list li"));
check("a deleted conversation leaves every list", true);

// Sign-out.
await page.click("header.bar >> text=Sign out");
await page.waitForSelector("input[type=password]");
check("signed out", await page.evaluate(async () => (await fetch("/api/v1/sandboxes")).status === 401));

// Another page cannot frame the console.
const framed = await fetch(server + "/");
check("no frame, no inline script", /frame-ancestors 'none'/.test(framed.headers.get("content-security-policy")) && !/script-src[^;]*unsafe/.test(framed.headers.get("content-security-policy")));

await browser.close();
console.log("DONE");
