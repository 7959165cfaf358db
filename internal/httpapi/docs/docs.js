// Draws the API's routes from /openapi.json. Text is only ever set as text, never as markup.
"use strict";

let spec;

function el(name, attrs = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attrs)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}

function resolve(schema) {
  const name = schema && schema.$ref && schema.$ref.split("/").pop();
  return name ? spec.components.schemas[name] : schema || {};
}

function typeOf(schema) {
  const s = resolve(schema);
  const type = [].concat(s.type || "any").filter((t) => t !== "null").join(" or ");
  if (type === "array") return "list of " + typeOf(s.items);
  if (type === "object" && s.additionalProperties && s.additionalProperties.type) return "map of " + typeOf(s.additionalProperties);
  if (s.enum) return s.enum.join(" | ");
  return s.format ? type + " (" + s.format + ")" : type;
}

function limits(s) {
  const words = [];
  if (s.default !== undefined) words.push("default " + s.default);
  if (s.minimum !== undefined) words.push("at least " + s.minimum);
  if (s.maximum !== undefined) words.push("at most " + s.maximum);
  if (s.maxLength !== undefined) words.push("at most " + s.maxLength + " characters");
  return words.join(", ");
}

function rows(entries) {
  const table = el("table");
  for (const { name, schema, required, text } of entries) {
    const s = resolve(schema);
    const words = [(text || schema.description || s.description || "").replace(/\.$/, ""), limits(s)].filter(Boolean).join("; ");
    table.append(el("tr", {},
      el("td", {}, el("code", {}, name), required ? " *" : ""),
      el("td", { class: "type" }, typeOf(schema)),
      el("td", {}, words)));
  }
  return table;
}

function fields(schema, prefix = "", depth = 0) {
  const s = resolve(schema);
  if (s.type === "array") return fields(s.items, prefix + "[].", depth);
  return Object.entries(s.properties || {}).flatMap(([name, property]) => {
    const own = { name: prefix + name, schema: property, required: (s.required || []).includes(name) };
    const inner = resolve(property);
    const nested = depth < 2 && (inner.properties || (inner.items && resolve(inner.items).properties));
    return nested ? [own, ...fields(property, prefix + name + (inner.items ? "" : "."), depth + 1)] : [own];
  });
}

function example(schema) {
  const s = resolve(schema);
  const out = {};
  for (const [name, property] of Object.entries(s.properties || {})) {
    const given = property.examples && property.examples[0];
    if (given !== undefined && name !== "id") out[name] = given;
    else if ((s.required || []).includes(name)) out[name] = "…";
  }
  return JSON.stringify(out);
}

function curl(method, path, op) {
  const lines = ["curl"];
  if (method !== "GET") lines[0] += " -X " + method;
  if ((op.security || []).length) lines.push('-H "Authorization: Bearer $BERTH_API_KEY"');
  const body = op.requestBody && op.requestBody.content["application/json"];
  if (body) lines.push("--json '" + example(body.schema) + "'");
  lines.push(location.origin + path.replace(/\{(\w+)\}/g, (_, name) => name.toUpperCase()));
  return lines.join(" \\\n  ");
}

function part(title, node) {
  return node.childNodes.length ? el("div", {}, el("h4", {}, title), node) : null;
}

function responses(op) {
  const table = el("table");
  for (const [status, response] of Object.entries(op.responses)) {
    table.append(el("tr", {}, el("td", {}, el("code", {}, status)), el("td", {}, codes(response.description))));
  }
  return table;
}

// The codes of one word; the others are told by their underscore.
const single = ["internal", "unauthenticated", "forbidden", "conflict", "deleted", "timeout", "unsupported"];

// codes links the problem codes that a description lists.
function codes(text) {
  const span = el("span");
  for (const word of text.split(/([a-z]+(?:_[a-z]+)*)/)) {
    const known = word.includes("_") || single.includes(word);
    span.append(known ? el("a", { href: "/docs/problems#" + word }, word) : word);
  }
  return span;
}

function answer(op) {
  const good = Object.entries(op.responses).find(([status, r]) => status < "300" && r.content && r.content["application/json"]);
  return good ? rows(fields(good[1].content["application/json"].schema)) : el("table");
}

function operation(method, path, op) {
  const body = op.requestBody && op.requestBody.content["application/json"];
  const parameters = (op.parameters || []).map((p) => ({ name: p.name, schema: p.schema, required: p.required, text: p.description }));
  return el("details", { id: op.operationId },
    el("summary", {}, el("span", { class: "method" }, method), el("h3", {}, el("code", {}, path)), el("span", { class: "what" }, op.summary || "")),
    el("div", {},
      op.description ? el("p", {}, op.description) : null,
      part("Parameters", rows(parameters)),
      part("Body", body ? rows(fields(body.schema)) : el("table")),
      part("Answer", answer(op)),
      part("Statuses", responses(op)),
      el("h4", {}, "Example"),
      el("pre", {}, el("code", {}, curl(method, path, op)))));
}

function draw() {
  document.getElementById("version").textContent = spec.info.version;
  document.getElementById("about").textContent = spec.info.description || "";
  for (const node of document.querySelectorAll(".server")) node.textContent = location.origin;
  const tags = new Map((spec.tags || []).map((tag) => [tag.name, []]));
  const about = new Map((spec.tags || []).map((tag) => [tag.name, tag.description]));
  for (const [path, item] of Object.entries(spec.paths)) {
    for (const [method, op] of Object.entries(item)) {
      const tag = (op.tags || ["Other"])[0];
      tags.set(tag, [...(tags.get(tag) || []), { method: method.toUpperCase(), path, op }]);
    }
  }
  for (const [tag, all] of tags) {
    const list = el("ul");
    const section = el("section", {}, el("h2", {}, tag), el("p", { class: "facts" }, about.get(tag) || ""));
    for (const { method, path, op } of all) {
      list.append(el("li", {}, el("a", { href: "#" + op.operationId }, op.summary || path)));
      section.append(operation(method, path, op));
    }
    document.getElementById("contents").append(el("strong", {}, tag), list);
    document.getElementById("operations").append(section);
  }
  reveal();
}

// reveal opens the operation that the address names.
function reveal() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  target.open = true;
  target.scrollIntoView();
}

addEventListener("hashchange", reveal);
fetch("/openapi.json").then((r) => r.json()).then((s) => { spec = s; draw(); }).catch((err) => {
  document.getElementById("operations").append(el("p", {}, "The specification cannot be read: " + err));
});
