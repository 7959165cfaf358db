// A program that serves one page, which the test's script uses as an attacker's, and tries to set cookies for others.
import { createServer } from "node:http";

createServer((request, response) => {
  response.writeHead(200, {
    "Content-Type": "text/html", "Access-Control-Allow-Origin": "*", "Clear-Site-Data": '"cookies"',
    "Set-Cookie": ["user=mallory; Domain=preview.localhost; Path=/", "berth_session=forged; Path=/", "berth_preview=forged; Domain=preview.localhost"],
  });
  response.end("<!doctype html><title>hostile</title><body>hostile</body>");
}).listen(8000, "127.0.0.1", () => console.log("listening"));
