// Draws the API's operations from /openapi.json. Text is only ever set as text, never as markup.
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
  if (s.oneOf) return s.oneOf.map(typeOf).join(" or ");
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

// example makes a value of the schema: its own example, or one that shows its type. Without all, optional fields
// that have no example are left out.
function example(schema, all, depth = 0) {
  const s = resolve(schema);
  if (s.examples) return s.examples[0];
  if (s.default !== undefined) return s.default;
  if (s.enum) return s.enum[0];
  if (s.oneOf) return example(s.oneOf[s.oneOf.length - 1], all, depth);
  switch ([].concat(s.type || "any").find((t) => t !== "null")) {
    case "object": {
      const out = {};
      for (const [name, property] of Object.entries(s.properties || {})) {
        const required = (s.required || []).includes(name);
        const given = resolve(property).examples;
        if ((required || given || all) && depth < 3 && (name !== "id" || all)) out[name] = example(property, all, depth + 1);
      }
      return out;
    }
    case "array": return s.items && depth < 3 ? [example(s.items, all, depth + 1)] : [];
    case "integer": case "number": return s.minimum || 0;
    case "boolean": return true;
    case "string": return s.format === "date-time" ? "2026-01-02T15:04:05Z" : "…";
    default: return {};
  }
}

const samples = { prompt: "list the files", command: "echo hello", arguments: { command: "echo hello" } };

function bodyExample(schema) {
  const out = example(schema, false);
  for (const [name, value] of Object.entries(samples)) {
    if (resolve(schema).properties && resolve(schema).properties[name]) out[name] = value;
  }
  return JSON.stringify(out);
}

// good returns the contents of the successful answers, by content type.
function good(op) {
  return Object.assign({}, ...Object.entries(op.responses).filter(([status]) => status < "300").map(([, r]) => r.content || {}));
}

const tar = "application/x-tar";

// variables are the shell's names for parts of a path, where the usual one is taken.
const variables = { path: "FILE_PATH" };

function curl(method, path, op) {
  const streams = good(op)["text/event-stream"];
  const url = location.origin + path.replace(/\{(\w+)\}/g, (_, name) => "$" + (variables[name] || name.toUpperCase()));
  const key = '-H "Authorization: Bearer $BERTH_API_KEY"';
  if (op.responses["101"]) return ["websocat -b", key, url.replace(/^http/, "ws")].join(" \\\n  ");
  const lines = [streams ? "curl -N" : "curl"]; // -N: print each event at once
  const accepts = op.requestBody ? op.requestBody.content : {};
  const body = accepts["application/json"];
  if (method !== "GET" && !(method === "POST" && body)) lines[0] += " -X " + method;
  if ((op.security || []).length) lines.push(key);
  if (streams) lines.push('-H "Accept: text/event-stream"'); // --json alone asks for JSON
  if (body) lines.push("--json '" + bodyExample(body.schema) + "'");
  else if (accepts[tar]) lines.push('-H "Content-Type: ' + tar + '"', "--data-binary @FILE.tar");
  else if (op.requestBody) lines.push("--data-binary @FILE");
  if (good(op)[tar]) lines.push("-o FILE.tar"); // curl prints no binary to a terminal
  lines.push(url);
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

// The codes of one word; the others have an underscore.
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

// answer shows the fields of a JSON answer and the events of a stream, each with an example.
function answer(op) {
  const div = el("div");
  const content = good(op);
  const json = content["application/json"];
  if (json && json.schema && fields(json.schema).length) {
    div.append(rows(fields(json.schema)), el("pre", {}, el("code", {}, JSON.stringify(example(json.schema, true), null, 2))));
  }
  const stream = content["text/event-stream"];
  for (const one of (stream && resolve(stream.schema).oneOf) || []) {
    const s = resolve(one);
    const of = fields(one).filter((f) => f.name !== "type");
    div.append(el("h5", {}, el("code", {}, s.properties.type.enum[0])), el("p", {}, s.description), rows(of),
      el("pre", {}, el("code", {}, "data: " + JSON.stringify(example(one, false)))));
  }
  return div;
}

function operation(method, path, op) {
  const body = op.requestBody && op.requestBody.content["application/json"];
  const parameters = (op.parameters || []).map((p) => ({ name: p.name, schema: p.schema, required: p.required, text: p.description }));
  const node = el("details", { id: op.operationId },
    el("summary", {}, el("span", { class: "method" }, method), el("h3", {}, el("code", {}, path)),
      el("span", { class: "what" }, (op.summary || "") + (op.deprecated ? " (deprecated)" : ""))));
  // The body is drawn when it is first opened: there are many operations.
  const draw = () => {
    if (!node.open || node.childNodes.length > 1) return;
    node.append(el("div", {},
      op.description ? el("p", {}, op.description) : null,
      el("h4", {}, "Example"),
      el("pre", {}, el("code", {}, curl(method, path, op))),
      part("Parameters", rows(parameters)),
      part("Body", body ? rows(fields(body.schema)) : el("table")),
      part(good(op)["text/event-stream"] ? "Events" : "Answer", answer(op)),
      part("Statuses", responses(op))));
  };
  node.addEventListener("toggle", draw);
  return node;
}

const found = []; // everything that the search can hide

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
    const head = el("strong", {}, tag);
    const section = el("section", {}, el("h2", {}, tag), el("p", { class: "facts" }, about.get(tag) || ""));
    const group = { nodes: [section, head, list], entries: [] };
    for (const { method, path, op } of all) {
      const link = el("li", {}, el("a", { href: "#" + op.operationId }, op.summary || path));
      const node = operation(method, path, op);
      list.append(link);
      section.append(node);
      const names = (op.parameters || []).map((p) => p.name);
      group.entries.push({ nodes: [link, node], text: [method, path, op.operationId, op.summary, op.description, ...names].join(" ").toLowerCase() });
    }
    found.push(group);
    document.getElementById("contents").append(head, list);
    document.getElementById("operations").append(section);
  }
  reveal();
}

// search hides the operations that do not have all the words.
function search() {
  const words = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const group of found) {
    let any = false;
    for (const { nodes, text } of group.entries) {
      const match = words.every((word) => text.includes(word));
      for (const node of nodes) node.hidden = !match;
      any = any || match;
      if (match) count++;
    }
    for (const node of group.nodes) node.hidden = !any;
  }
  document.getElementById("count").textContent = words.length ? count + (count === 1 ? " operation" : " operations") : "";
}

// reveal opens the operation that the address names.
function reveal() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  target.open = true;
  target.scrollIntoView();
}

addEventListener("hashchange", reveal);
addEventListener("DOMContentLoaded", () => document.getElementById("search").addEventListener("input", search));
fetch("/openapi.json").then((r) => r.json()).then((s) => { spec = s; draw(); search(); }).catch((err) => {
  document.getElementById("operations").append(el("p", {}, "Cannot read the specification: " + err));
});
