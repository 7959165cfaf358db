// Compresses the built files, so that the server need not.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

let first = 0;
const index = readFileSync("dist/index.html", "utf8");
for (const name of readdirSync("dist/assets").filter((n) => /\.(js|css|svg)$/.test(n))) {
  const text = readFileSync("dist/assets/" + name);
  const packed = gzipSync(text, { level: 9 });
  if (packed.length < text.length) writeFileSync(`dist/assets/${name}.gz`, packed);
  if (index.includes(name)) first += packed.length;
}
console.log(`first page: ${(first / 1024).toFixed(1)} KiB in gzip`);
if (first > 300 * 1024) throw new Error("the first page is larger than 300 KiB");
