// Server-sent events over fetch: unlike EventSource it says why a connection was refused.
import { Failure, failureOf } from "./api";

export interface StreamEvent<T> {
  id: string;
  data: T;
}

// silence is the time without a byte after which a connection counts as lost. The server writes every 15 seconds.
const silence = 45_000;

async function* connect<T>(path: string, after: string, signal: AbortSignal): AsyncGenerator<StreamEvent<T>, boolean> {
  const cut = new AbortController();
  const stop = () => cut.abort();
  signal.addEventListener("abort", stop);
  let alive = setTimeout(stop, silence);
  try {
    const answer = await fetch(path, { signal: cut.signal, headers: after ? { "Last-Event-ID": after } : {} });
    if (answer.status === 204) return true;
    if (!answer.ok || !answer.body) throw await failureOf(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let id = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return false;
      clearTimeout(alive);
      alive = setTimeout(stop, silence);
      const lines = (rest + value).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        if (line.startsWith("id: ")) id = line.slice(4);
        else if (line.startsWith("data: ")) yield { id, data: JSON.parse(line.slice(6)) as T };
        else if (line === "") id = "";
      }
    }
  } finally {
    clearTimeout(alive);
    signal.removeEventListener("abort", stop);
    cut.abort();
  }
}

// follow yields the events of a stream and connects again after a lost connection, behind the last event that had an id.
// It ends when the server has no more events. onState learns whether there is a connection.
export async function* follow<T>(path: string, signal: AbortSignal, onState: (connected: boolean) => void = () => {}, after = ""): AsyncGenerator<StreamEvent<T>> {
  for (let failed = 0; !signal.aborted; ) {
    try {
      const events = connect<T>(path, after, signal);
      for (;;) {
        const next = await events.next();
        if (next.done) {
          if (next.value) return;
          break;
        }
        failed = 0;
        onState(true);
        if (next.value.id) after = next.value.id;
        yield next.value;
      }
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof Failure && e.status >= 400 && e.status < 500 && e.status !== 429 && e.status !== 408) throw e;
    }
    onState(false);
    failed++;
    await new Promise((go) => setTimeout(go, Math.min(250 * 2 ** failed, 5000) * (0.5 + Math.random() / 2)));
  }
}
