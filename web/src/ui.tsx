// Parts that pages share.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Failure, type Sandbox } from "./api";
import { live } from "./live";

export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  const f = error instanceof Failure ? error : new Failure(0, "console_error", String((error as Error)?.message ?? error));
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{f.message}</strong>
      </p>
      {f.hint && <p>{f.hint}</p>}
      <p class="facts">
        <a href={"/docs/problems#" + f.code}>
          <code>{f.code}</code>
        </a>
        {f.requestID && (
          <>
            {" · request "}
            <code>{f.requestID}</code>
          </>
        )}
        {retry && (
          <button type="button" class="small" onClick={retry}>
            Try again
          </button>
        )}
      </p>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h3>{title}</h3>
      {children}
    </div>
  );
}

const tones: Record<string, string> = {
  running: "good", completed: "good", idle: "quiet", unhealthy: "warn", error: "bad", failed: "bad", cancelled: "warn", interrupted: "warn",
  creating: "busy", starting: "busy", stopping: "busy", pending: "busy", terminating: "busy", queued: "busy",
};

export function State({ of, frozen }: { of: string; frozen?: boolean }) {
  return <span class={"state " + (frozen ? "quiet" : (tones[of] ?? "quiet"))}>{frozen ? "frozen" : of}</span>;
}

// nameOf is what a person calls a sandbox. That of a conversation goes by the conversation's title.
export const nameOf = (s: Sandbox) => s.name || (s.owner.kind === "conversation" && live.conversations.get(s.owner.id)?.title) || (s.owner.kind !== "sandbox" && s.owner.id && s.owner.id !== s.id ? `${s.owner.kind} ${short(s.owner.id)}` : short(s.id));

export const short = (id: string) => (/^[0-9a-f]{8}-/.test(id) ? id.slice(0, 8) + "…" + id.slice(-4) : id);

// reasonOf says why a sandbox is not simply running.
export function reasonOf(s: Sandbox): string {
  if (s.error) return s.error.message;
  if (s.save_error) return "not saved: " + s.save_error.message;
  if (s.frozen) return "its processes are frozen";
  if (s.lost) return "changes were lost with an instance";
  if (s.want === "gone") return "being deleted";
  if (s.state === "stopped" || s.state === "archived") return "starts with its next use";
  return "";
}

export function Ago({ at }: { at?: string }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const t = setInterval(() => tick((n) => n + 1), 20_000);
    return () => clearInterval(t);
  }, []);
  if (!at) return null;
  const d = new Date(at);
  return (
    <time dateTime={at} title={d.toLocaleString()}>
      {ago(d)}
    </time>
  );
}

function ago(d: Date): string {
  const s = Math.round((Date.now() - d.getTime()) / 1000);
  if (s < 45) return "just now";
  for (const [unit, per] of [["min", 60], ["h", 3600], ["d", 86400]] as const) {
    const n = Math.round(s / per);
    if (unit === "d" || n < (unit === "min" ? 60 : 24)) return n < 60 ? `${n} ${unit} ago` : d.toLocaleDateString();
  }
  return d.toLocaleDateString();
}

export const clock = (at: string) => new Date(at).toLocaleTimeString();
export const count = (n: number) => n.toLocaleString("en-US");
export const plural = (n: number, noun: string) => `${count(n)} ${noun}${n === 1 ? "" : noun.endsWith("box") ? "es" : "s"}`;
export const dollars = (n: number) => (n === 0 ? "$0" : "$" + (n < 0.01 ? n.toFixed(4) : n.toFixed(2)));

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i === 0 ? n : n.toFixed(n < 10 ? 1 : 0)) + " " + units[i];
}

export interface Loaded<T> {
  value?: T;
  error?: unknown;
  again: () => void;
}

// useLoad loads a value when the page opens and when deps change. An old value stays while a new one is loaded.
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[]): Loaded<T> {
  const [got, set] = useState<{ value?: T; error?: unknown }>({});
  const [turn, next] = useState(0);
  const last = useRef<unknown[]>(deps);
  useEffect(() => {
    const stop = new AbortController();
    if (last.current.some((d, i) => d !== deps[i])) set({});
    last.current = deps;
    load(stop.signal).then(
      (value) => !stop.signal.aborted && set({ value }),
      (error) => !stop.signal.aborted && set((was) => ({ value: was.value, error })),
    );
    return () => stop.abort();
  }, [...deps, turn]);
  return { ...got, again: useCallback(() => next((n) => n + 1), []) };
}

// Action is a button for a request. It shows that the request is under way and why it failed.
export function Action({ label, run, confirm, tone, disabled }: { label: string; run: () => Promise<unknown>; confirm?: ComponentChildren; tone?: "danger" | "primary"; disabled?: boolean }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const ask = useRef<HTMLDialogElement>(null);
  const go = async () => {
    ask.current?.close();
    setBusy(true);
    setError(undefined);
    try {
      await run();
    } catch (e) {
      setError(e);
    }
    setBusy(false);
  };
  return (
    <>
      <button type="button" class={tone} disabled={busy || disabled} aria-busy={busy} onClick={() => (confirm ? ask.current?.showModal() : void go())}>
        {label}
      </button>
      {confirm && (
        <dialog ref={ask}>
          <div>{confirm}</div>
          <p class="buttons">
            <button type="button" class={tone} onClick={() => void go()}>
              {label}
            </button>
            <button type="button" onClick={() => ask.current?.close()}>
              Cancel
            </button>
          </p>
        </dialog>
      )}
      {error !== undefined && (
        <div class="toast">
          <Problem error={error} />
          <button type="button" class="small" onClick={() => setError(undefined)}>
            Close
          </button>
        </div>
      )}
    </>
  );
}

export const Spinner = () => <p class="loading">Loading …</p>;
