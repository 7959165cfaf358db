import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { all, call, type Conversation, get, type Message, type Turn, type TurnEvent } from "../api";
import { useCaller } from "../caller";
import { useLive } from "../live";
import { Markdown } from "../markdown";
import { follow } from "../stream";
import { Action, Ago, bytes, count, dollars, Problem, short, Spinner, State, useLoad } from "../ui";

// Part is a piece of an answer, from a stored message or from the stream.
interface Part {
  kind: "text" | "thinking" | "tool" | "status";
  text: string;
  open?: boolean; // more of it may come
  id?: string;
  name?: string;
  input?: unknown;
  result?: string;
  failed?: boolean;
}

function partsOf(m: Message): Part[] {
  const parts: Part[] = [];
  for (const b of m.content) {
    if (b.type === "tool_use") parts.push({ kind: "tool", text: "", id: b.id, name: b.name, input: b.input, result: "" });
    else if (b.type === "tool_result") {
      const of = parts.find((p) => p.kind === "tool" && p.id === b.tool_use_id);
      if (of) Object.assign(of, { result: b.text ?? "", failed: b.is_error });
    } else parts.push({ kind: b.type, text: b.text ?? "" });
  }
  return parts;
}

// add returns the parts after an event.
function add(parts: Part[], e: TurnEvent): Part[] {
  const last = parts.at(-1);
  switch (e.type) {
    case "text.delta":
    case "thinking.delta": {
      const kind = e.type === "text.delta" ? "text" : "thinking";
      if (last?.open && last.kind === kind) return [...parts.slice(0, -1), { ...last, text: last.text + e.text }];
      return [...parts, { kind, text: e.text, open: true }];
    }
    case "text":
    case "thinking":
      if (last?.open && last.kind === e.type) return [...parts.slice(0, -1), { kind: e.type, text: e.text }];
      return [...parts, { kind: e.type, text: e.text }];
    case "tool.call":
      return [...parts, { kind: "tool", text: "", id: e.id, name: e.name, input: e.input, open: true }];
    case "tool.result":
      return parts.map((p) => (p.kind === "tool" && p.id === e.id ? { ...p, result: e.text ?? "", failed: e.is_error, open: false } : p));
    case "status":
      return ["queued", "session_started"].includes(e.status) ? parts : [...parts, { kind: "status", text: e.message ? `${e.status.replaceAll("_", " ")}: ${e.message}` : e.status.replaceAll("_", " ") }];
    case "error":
      return [...parts, { kind: "status", text: e.message ?? "the turn failed", failed: true }];
  }
  return parts;
}

const pretty = (v: unknown) => (typeof v === "string" ? v : JSON.stringify(v, null, 2));

// brief is the argument of a tool that says most.
function brief(input: unknown): string {
  if (typeof input !== "object" || input === null) return "";
  const fields = input as Record<string, unknown>;
  const value = ["command", "file_path", "path", "pattern", "url", "query"].map((k) => fields[k]).find((v) => typeof v === "string");
  return typeof value === "string" ? value.split("\n")[0]! : "";
}

function Tool({ part }: { part: Part }) {
  return (
    <details class={"tool" + (part.failed ? " failed" : "")}>
      <summary>
        <b>{part.name}</b> <code>{brief(part.input)}</code> {part.open ? <span class="state busy">running</span> : part.failed ? <span class="state bad">failed</span> : null}
      </summary>
      <pre>{pretty(part.input)}</pre>
      {part.result && <pre class="result">{part.result}</pre>}
    </details>
  );
}

function Parts({ parts }: { parts: Part[] }) {
  return (
    <>
      {parts.map((p, i) =>
        p.kind === "tool" ? (
          <Tool key={i} part={p} />
        ) : p.kind === "thinking" ? (
          <details key={i} class="thinking">
            <summary>Thinking</summary>
            <p>{p.text}</p>
          </details>
        ) : p.kind === "status" ? (
          <p key={i} class={"note" + (p.failed ? " failed" : "")}>
            {p.text}
          </p>
        ) : (
          <Markdown key={i} text={p.text} />
        ),
      )}
    </>
  );
}

function Facts({ m }: { m: Message }) {
  const facts = [
    m.model,
    m.usage.input_tokens + m.usage.output_tokens > 0 && `${m.usage.estimated ? "≈ " : ""}${count(m.usage.input_tokens)} in, ${count(m.usage.output_tokens)} out`,
    m.cost_usd > 0 && dollars(m.cost_usd),
    m.duration_ms && (m.duration_ms / 1000).toFixed(1) + " s",
  ].filter(Boolean);
  return (
    <p class="facts">
      {m.status !== "completed" && <State of={m.status} />} {facts.join(" · ")} <Ago at={m.created_at} />
    </p>
  );
}

type Running = Record<string, { parts: Part[]; status: string; lost?: boolean }>;
type Step = { turn: string; event?: TurnEvent; connected?: boolean; over?: boolean };

function step(all: Running, s: Step): Running {
  if (s.over) {
    const { [s.turn]: _, ...rest } = all;
    return rest;
  }
  const was = all[s.turn] ?? { parts: [], status: "queued" };
  if (s.event) {
    const status = s.event.type === "turn.finished" ? s.event.status : s.event.type === "turn.started" || (s.event.type === "status" && s.event.status === "queued") ? was.status : "running";
    return { ...all, [s.turn]: { parts: add(was.parts, s.event), status, lost: false } };
  }
  return { ...all, [s.turn]: { ...was, lost: s.connected === false } };
}

export function Chat({ id }: { id: string }) {
  const { mayWrite } = useCaller();
  const path = "/api/v1/conversations/" + id;
  const messages = useLoad((signal) => all<Message>(path + "/messages", 2000, signal), [id]);
  const [running, dispatch] = useReducer(step, {});
  const followed = useRef(new Map<string, AbortController>());
  const [error, setError] = useState<unknown>();
  const end = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);

  // watch follows a turn until its end, once. Its messages are stored by then.
  const watch = (turn: string) => {
    if (followed.current.has(turn)) return;
    const stop = new AbortController();
    followed.current.set(turn, stop);
    void (async () => {
      try {
        const events = follow<TurnEvent>(`${path}/turns/${turn}/events`, stop.signal, (connected) => dispatch({ turn, connected }));
        for await (const { data } of events) {
          dispatch({ turn, event: data });
          if (data.type === "turn.finished" || data.type === "resync") break;
        }
        messages.again();
        setTimeout(() => dispatch({ turn, over: true }), 400); // the stored messages take its place
      } catch (e) {
        setError(e);
        dispatch({ turn, over: true });
      }
    })();
  };
  useLive((e) => {
    if (e.type === "turn" && e.conversation_id === id && (e.status === "running" || e.status === "queued")) watch(e.id);
  }, [id]);
  const data = useLive();
  const own = useLoad((signal) => get<Conversation>(path, signal), [id]);
  const talk = data.conversations.get(id) ?? own.value;
  useEffect(() => {
    get<{ items: Turn[] }>(path + "/turns?limit=10").then(
      (list) => list.items.filter((t) => !t.finished_at).forEach((t) => watch(t.id)),
      () => {}, // the page shows the error of the messages
    );
    return () => followed.current.forEach((stop) => stop.abort());
  }, [id]);

  useEffect(() => {
    if (atEnd.current) end.current?.scrollIntoView({ block: "end" });
  }, [messages.value, running]);

  if (messages.error !== undefined && !messages.value) return <Problem error={messages.error} retry={messages.again} />;
  if (!messages.value || !talk) return <Spinner />;
  const stored = new Set(messages.value.filter((m) => m.role === "assistant").map((m) => m.turn_id));
  const open = Object.entries(running).filter(([turn]) => !stored.has(turn));
  return (
    <div class="chat">
      <header class="title">
        <h2>{talk.title || "Untitled"}</h2>
        <span class="muted">
          {talk.template}
          {talk.sandbox_id && (
            <>
              {" · "}
              <a href={`#/sandboxes/${talk.sandbox_id}/files`}>sandbox {short(talk.sandbox_id)}</a>
            </>
          )}
          {talk.stats.total_cost_usd > 0 && " · " + dollars(talk.stats.total_cost_usd)}
        </span>
        <span class="buttons">
          <button type="button" title="Copy the command that goes on with this conversation in a terminal" onClick={() => void navigator.clipboard?.writeText("berth chat -c " + id)}>
            Copy for a terminal
          </button>
          {mayWrite && (
            <Action
              label="Delete"
              tone="danger"
              run={async () => {
                await call("DELETE", path);
                location.hash = "#/conversations";
              }}
              confirm={<p>Delete this conversation and its messages? The server deletes the sandbox that was made for it, too, unless it is set to keep it.</p>}
            />
          )}
        </span>
      </header>
      <div
        class="messages"
        aria-live="polite"
        onScroll={(e) => {
          const box = e.currentTarget;
          atEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 60;
        }}
      >
        {messages.value.length === 0 && open.length === 0 && <p class="muted center">Say what the agent should do. It works in a sandbox of its own.</p>}
        {messages.value.map((m) => (
          <article key={m.id} class={m.role}>
            {m.role === "user" ? (
              <>
                <div class="said">{m.content.map((b) => b.text).join("\n")}</div>
                {m.attachments?.map((a) => (
                  <span key={a.path} class="chip">
                    {a.name} <small>{bytes(a.size)}</small>
                  </span>
                ))}
              </>
            ) : (
              <>
                <Parts parts={partsOf(m)} />
                {m.error && <p class="note failed">{m.error}</p>}
                <Facts m={m} />
              </>
            )}
          </article>
        ))}
        {open.map(([turn, t]) => (
          <article key={turn} class="assistant live">
            <Parts parts={t.parts} />
            <p class="facts">
              <State of={t.status} /> {t.lost && <span class="state warn">connection lost, connecting again</span>}{" "}
              {mayWrite && (
                <button type="button" class="small" onClick={() => void call("POST", `${path}/turns/${turn}/cancel`).catch(setError)}>
                  Cancel
                </button>
              )}
            </p>
          </article>
        ))}
        {error !== undefined && <Problem error={error} />}
        <div ref={end} />
      </div>
      {mayWrite ? (
        <Composer
          id={id}
          busy={open.length > 0}
          onSent={(turn) => {
            setError(undefined);
            atEnd.current = true;
            messages.again();
            watch(turn.id);
          }}
        />
      ) : (
        <p class="muted">This key can read; sending needs the scope write.</p>
      )}
    </div>
  );
}

function Composer({ id, busy, onSent }: { id: string; busy: boolean; onSent: (turn: Turn) => void }) {
  const [text, setText] = useState(() => sessionStorage.getItem("draft " + id) ?? "");
  const [sending, setSending] = useState(false);
  const [error, setError] = useState<unknown>();
  const keep = (value: string) => {
    setText(value);
    sessionStorage.setItem("draft " + id, value);
  };
  const submit = async () => {
    if (!text.trim() || sending) return;
    setSending(true);
    setError(undefined);
    try {
      onSent(await call<Turn>("POST", `/api/v1/conversations/${id}/messages?queue=true`, { prompt: text }, { headers: { Accept: "application/json" } }));
      keep("");
    } catch (e) {
      setError(e);
    }
    setSending(false);
  };
  return (
    <form
      class="composer"
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      {error !== undefined && <Problem error={error} />}
      <textarea
        aria-label="Prompt"
        rows={Math.min(8, Math.max(2, text.split("\n").length))}
        placeholder={busy ? "Add a prompt to the queue" : "Write a prompt. Enter sends it, Shift-Enter begins a line."}
        value={text}
        onInput={(e) => keep(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
            e.preventDefault();
            void submit();
          }
        }}
      />
      <button class="primary" disabled={sending || !text.trim()}>
        {busy ? "Queue" : "Send"}
      </button>
    </form>
  );
}
