// Calls of the API. The browser's session is the credential.
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Sandbox = Schemas["Sandbox"];
export type Conversation = Schemas["Conversation"];
export type Message = Schemas["Message"];
export type Turn = Schemas["Turn"];
export type TurnEvent = Schemas["TurnEvent"];
export type ChangeEvent = Schemas["ChangeEvent"];
export type Explanation = Schemas["Explanation"];
export type Transition = Schemas["Transition"];
export type OpenPort = Schemas["OpenPort"];
export type PortURL = Schemas["PortURL"];
export type File = Schemas["File"];
export type Version = Schemas["Version"];
export type VersionDiff = Schemas["VersionDiff"];
export type ExecStatus = Schemas["ExecStatus"];
export type UsageReport = Schemas["UsageReport"];
export type UsageItem = Schemas["UsageItem"];
export type Template = Schemas["Template"];
export type Caller = Schemas["Caller"];

export interface List<T> {
  items: T[];
  next_cursor?: string;
}

// Failure is a problem that the server answered, or that it could not be reached.
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly hint?: string,
    readonly requestID?: string,
  ) {
    super(detail);
  }
}

let onSignedOut = () => {};
export function whenSignedOut(f: () => void) {
  onSignedOut = f;
}

export async function failureOf(answer: Response): Promise<Failure> {
  if (answer.status === 401) onSignedOut();
  const requestID = answer.headers.get("X-Request-Id") ?? undefined;
  try {
    const p = (await answer.json()) as Partial<Schemas["Problem"]>;
    if (p.code) return new Failure(answer.status, p.code, p.detail ?? p.title ?? "", p.hint, p.request_id ?? requestID);
  } catch {
    // not a problem document: a proxy between
  }
  return new Failure(answer.status, "unexpected_answer", `the server answered with the status ${answer.status}`, undefined, requestID);
}

export async function send(method: string, path: string, body?: unknown, more: RequestInit = {}): Promise<Response> {
  const headers = new Headers(more.headers);
  if (body !== undefined && !headers.has("Content-Type")) headers.set("Content-Type", "application/json");
  if (method === "POST" && !headers.has("Idempotency-Key")) headers.set("Idempotency-Key", randomKey());
  let answer: Response;
  try {
    answer = await fetch(path, { ...more, method, headers, body: body === undefined ? more.body : JSON.stringify(body) });
  } catch (e) {
    if ((e as Error).name === "AbortError") throw e;
    throw new Failure(0, "server_unreachable", "the server did not answer", "Check that it runs; this page goes on when it does.");
  }
  if (!answer.ok) throw await failureOf(answer);
  return answer;
}

// randomKey works without a secure context, where crypto.randomUUID is missing.
export function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

export async function call<T>(method: string, path: string, body?: unknown, more?: RequestInit): Promise<T> {
  const answer = await send(method, path, body, more);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

export const get = <T>(path: string, signal?: AbortSignal) => call<T>("GET", path, undefined, { signal });

// all reads the pages of a list, up to a number of entries.
export async function all<T>(path: string, most: number, signal?: AbortSignal): Promise<T[]> {
  const items: T[] = [];
  let cursor = "";
  do {
    const page = await get<List<T>>(path + (path.includes("?") ? "&" : "?") + "limit=200" + (cursor && "&cursor=" + encodeURIComponent(cursor)), signal);
    items.push(...page.items);
    cursor = page.next_cursor ?? "";
  } while (cursor && items.length < most);
  return items;
}

// filePath is a path below …/files/ with each segment escaped.
export const filePath = (path: string) => path.split("/").map(encodeURIComponent).join("/");
