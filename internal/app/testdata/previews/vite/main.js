import { text } from "./text.js";

document.querySelector("#text").textContent = text;
if (import.meta.hot) import.meta.hot.accept("./text.js", (next) => { document.querySelector("#text").textContent = next.text; });
