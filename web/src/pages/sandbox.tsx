import { useState } from "preact/hooks";
import { all, call, type ExecStatus, type Explanation, Failure, get, type List, type OpenPort, type PortURL, type Sandbox, type Transition, type Version, type VersionDiff } from "../api";
import { useCaller } from "../caller";
import { live, useLive } from "../live";
import { Action, Ago, bytes, clock, count, Empty, nameOf, Problem, short, Spinner, State, useLoad } from "../ui";
import { Files } from "./files";
import { act, Command, remove } from "./sandboxes";

const tabs = { state: "State", files: "Files", versions: "Versions", ports: "Ports", processes: "Processes" } as const;
type Tab = keyof typeof tabs;

export function SandboxPage({ id, tab = "state" }: { id: string; tab?: string }) {
  const [missing, setMissing] = useState<unknown>();
  const data = useLive();
  const { mayWrite } = useCaller();
  const s = data.sandboxes.get(id) ?? [...data.sandboxes.values()].find((b) => b.name === id);
  if (!s) {
    if (!data.loaded) return data.failure ? <Problem error={data.failure} /> : <Spinner />;
    if (missing === undefined) {
      setMissing(null);
      get<Sandbox>("/api/v1/sandboxes/" + encodeURIComponent(id)).then((got) => void live.sandboxes.set(id, got), setMissing);
    }
    return missing ? <Problem error={missing} /> : <Spinner />;
  }
  const resting = s.state === "stopped" || s.state === "archived" || s.state === "error";
  const open: Tab = tab in tabs ? (tab as Tab) : "state";
  return (
    <>
      <div class="title">
        <h1>{nameOf(s)}</h1>
        <State of={s.state} frozen={s.frozen} />
        <span class="muted">
          {s.template} · {s.profile} · {s.driver}
        </span>
        {mayWrite && (
          <span class="buttons">
            {resting ? <Action label="Start" tone="primary" run={() => act(s, "start")} /> : <Action label="Stop" run={() => act(s, "stop")} />}
            <Action label="Restart" run={() => act(s, "restart")} disabled={resting} />
            <Action
              label="Delete"
              tone="danger"
              run={async () => {
                await remove(s);
                location.hash = "#/sandboxes";
              }}
              confirm={
                <p>
                  Delete <b>{nameOf(s)}</b>? Its workspace is saved a last time.
                </p>
              }
            />
          </span>
        )}
      </div>
      <nav class="tabs" aria-label="Parts of the sandbox">
        {(Object.keys(tabs) as Tab[]).map((t) => (
          <a key={t} href={`#/sandboxes/${s.id}/${t}`} aria-current={t === open ? "page" : undefined}>
            {tabs[t]}
          </a>
        ))}
      </nav>
      {open === "state" && <StateTab s={s} />}
      {open === "files" && <Files id={s.id} />}
      {open === "versions" && <Versions s={s} />}
      {open === "ports" && <Ports s={s} />}
      {open === "processes" && <Processes s={s} />}
    </>
  );
}

function StateTab({ s }: { s: Sandbox }) {
  const stamp = s.state + s.want + s.incarnation + (s.error?.at ?? "");
  const why = useLoad((signal) => get<Explanation>(`/api/v1/sandboxes/${s.id}/explain`, signal), [s.id, stamp]);
  const history = useLoad((signal) => get<List<Transition>>(`/api/v1/sandboxes/${s.id}/history?limit=100`, signal), [s.id, stamp]);
  const e = why.value;
  return (
    <div class="columns">
      <section>
        <h2>Why</h2>
        {why.error !== undefined && <Problem error={why.error} retry={why.again} />}
        {e && (
          <>
            <p class="lead">{e.summary}</p>
            {e.ahead.length > 0 && (
              <>
                <h3>What comes next</h3>
                <ul class="rows">
                  {e.ahead.map((a, i) => (
                    <li key={i}>
                      <b>{a.what}</b> {a.at ? <time dateTime={a.at}>{new Date(a.at).toLocaleString()}</time> : <span class="muted">{a.off ?? "not planned"}</span>} <span class="muted">{a.why}</span>
                    </li>
                  ))}
                </ul>
              </>
            )}
            {e.keeps.length > 0 && (
              <>
                <h3>What is kept</h3>
                <ul>{e.keeps.map((k, i) => <li key={i}>{k}</li>)}</ul>
              </>
            )}
          </>
        )}
        <h3>Facts</h3>
        <dl>
          <dt>Id</dt>
          <dd>
            <code>{s.id}</code>
          </dd>
          <dt>Owner</dt>
          <dd>
            {s.owner.kind === "conversation" ? <a href={"#/conversations/" + s.owner.id}>conversation {short(s.owner.id)}</a> : `${s.owner.kind} ${s.owner.id}`}
          </dd>
          <dt>Made</dt>
          <dd>
            <Ago at={s.created_at} />
          </dd>
          <dt>Last use</dt>
          <dd>
            <Ago at={s.active_at} />
          </dd>
          {s.unsaved_since && (
            <>
              <dt>Unsaved since</dt>
              <dd>
                <Ago at={s.unsaved_since} />
              </dd>
            </>
          )}
          {!!s.env?.length && (
            <>
              <dt>Variables</dt>
              <dd>
                <code>{s.env.join(", ")}</code>
              </dd>
            </>
          )}
        </dl>
        <Command text={`berth shell ${s.name || s.id}`} />
      </section>
      <section>
        <h2>History</h2>
        {history.error !== undefined && <Problem error={history.error} retry={history.again} />}
        <ol class="timeline">
          {history.value?.items.map((t) => (
            <li key={t.seq}>
              <time dateTime={t.at} title={new Date(t.at).toLocaleString()}>
                {clock(t.at)}
              </time>
              <div>
                <b>{t.event}</b> {t.to && t.to !== t.from && <State of={t.to} />}
                <div class="muted">
                  {t.reason}
                  {t.actor && " · " + t.actor}
                </div>
              </div>
            </li>
          ))}
        </ol>
      </section>
    </div>
  );
}

function Ports({ s }: { s: Sandbox }) {
  const got = useLoad(async (signal) => (s.state === "running" ? get<List<OpenPort>>(`/api/v1/sandboxes/${s.id}/ports`, signal) : undefined), [s.id, s.state]);
  const open = async (port: number) => {
    const tab = window.open("about:blank", "_blank"); // within the click, else the browser blocks it
    try {
      const made = await call<PortURL>("POST", `/api/v1/sandboxes/${s.id}/ports/${port}/url`, {});
      if (!/^https?:/.test(made.url)) throw new Failure(0, "unexpected_answer", "the address is not one of the web");
      if (tab) {
        tab.opener = null;
        tab.location.replace(made.url);
      }
    } catch (e) {
      tab?.close();
      throw e;
    }
  };
  if (s.state !== "running") return <Empty title="The sandbox does not run">Programs listen while it runs.</Empty>;
  if (got.error !== undefined) return <Problem error={got.error} retry={got.again} />;
  if (!got.value) return <Spinner />;
  return got.value.items.length === 0 ? (
    <Empty title="No program listens">
      <p>Start one in the sandbox, for example:</p>
      <Command text={`berth exec ${s.name || s.id} -- python3 -m http.server 8000`} />
      <button type="button" onClick={got.again}>
        Look again
      </button>
    </Empty>
  ) : (
    <table class="list">
      <thead>
        <tr>
          <th>Port</th>
          <th>Address</th>
          <th />
        </tr>
      </thead>
      <tbody>
        {got.value.items.map((p) => (
          <tr key={p.port + p.address}>
            <td>{p.port}</td>
            <td>{p.address}</td>
            <td class="actions">
              <Action label="Open" run={() => open(p.port)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Processes({ s }: { s: Sandbox }) {
  const got = useLoad((signal) => get<List<ExecStatus>>(`/api/v1/sandboxes/${s.id}/exec`, signal), [s.id, s.state]);
  const { mayWrite } = useCaller();
  if (got.error !== undefined) return <Problem error={got.error} retry={got.again} />;
  if (!got.value) return <Spinner />;
  if (got.value.items.length === 0)
    return (
      <Empty title="No command was started">
        <Command text={`berth exec ${s.name || s.id} -- uname -a`} />
      </Empty>
    );
  return (
    <table class="list">
      <thead>
        <tr>
          <th>Command</th>
          <th>State</th>
          <th>Began</th>
          <th>Output</th>
          {mayWrite && <th />}
        </tr>
      </thead>
      <tbody>
        {got.value.items.map((p) => (
          <tr key={p.exec_id}>
            <td class="why" title={p.command?.join(" ")}>
              <code>{p.command?.join(" ") ?? p.exec_id}</code>
            </td>
            <td>{p.running ? <State of="running" /> : p.exit ? (p.exit.signal ?? `exit ${p.exit.exit_code}`) : "ended"}</td>
            <td>
              <Ago at={p.started_at} />
            </td>
            <td>{bytes(p.end)}</td>
            {mayWrite && <td class="actions">{p.running && <Action label="Stop" run={() => call("POST", `/api/v1/sandboxes/${s.id}/exec/${p.exec_id}/signal`, { signal: "TERM" }).then(got.again)} />}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Versions({ s }: { s: Sandbox }) {
  const got = useLoad((signal) => all<Version>(`/api/v1/sandboxes/${s.id}/versions`, 400, signal), [s.id, s.unsaved_since]);
  const [pair, setPair] = useState<{ from: string; to: string }>();
  const { mayWrite } = useCaller();
  if (got.error !== undefined) return <Problem error={got.error} retry={got.again} />;
  if (!got.value) return <Spinner />;
  if (got.value.length === 0)
    return (
      <Empty title="No version was saved yet">
        <p>A turn saves one at its end, and so does a stop.</p>
      </Empty>
    );
  return (
    <div class="columns">
      <section>
        <ol class="timeline">
          {got.value.map((v, i) => (
            <li key={v.id} class={pair?.to === v.id ? "chosen" : undefined}>
              <Ago at={v.created_at} />
              <div>
                <b title={v.note}>{v.note?.startsWith("turn ") ? "After a turn" : v.note || `Version ${v.sequence}`}</b>
                <div class="muted">
                  {count(v.files)} files · {bytes(v.bytes)}
                </div>
                <button type="button" class="small" onClick={() => setPair({ from: got.value![i + 1]?.id ?? "", to: v.id })}>
                  Changes
                </button>
                {i > 0 && (
                  <button type="button" class="small" onClick={() => setPair({ from: got.value![0]!.id, to: v.id })}>
                    Compare with the newest
                  </button>
                )}
              </div>
            </li>
          ))}
        </ol>
      </section>
      <section>{pair ? <Changes key={pair.from + pair.to} s={s} {...pair} newest={got.value[0]!.id} mayRestore={mayWrite} onRestored={got.again} /> : <p class="muted">Choose a version to see what changed.</p>}</section>
    </div>
  );
}

function Changes({ s, from, to, newest, mayRestore, onRestored }: { s: Sandbox; from: string; to: string; newest: string; mayRestore: boolean; onRestored: () => void }) {
  const got = useLoad(
    async (signal) => (from ? get<VersionDiff>(`/api/v1/sandboxes/${s.id}/versions/${from}/diff/${to}`, signal) : (await get<{ changes: VersionDiff }>(`/api/v1/sandboxes/${s.id}/versions/${to}`, signal)).changes),
    [s.id, from, to],
  );
  const d = got.value;
  if (got.error !== undefined) return <Problem error={got.error} retry={got.again} />;
  if (!d) return <Spinner />;
  return (
    <>
      <h2>{from === newest ? "What a restore would change" : "What changed"}</h2>
      <p class="muted">
        {count(d.added)} added, {count(d.modified)} modified, {count(d.deleted)} deleted, {count(d.renamed)} renamed
      </p>
      <ul class="changes">
        {d.paths.map((p) => (
          <li key={p.path} class={p.change}>
            <span>{{ added: "+", modified: "~", deleted: "−", renamed: "→" }[p.change]}</span> {p.from && <>{p.from} → </>}
            {p.path} <small class="muted">{p.kind === "file" ? bytes(p.size ?? 0) : p.kind}</small>
          </li>
        ))}
      </ul>
      {d.truncated && <p class="muted">Some paths are left out; the numbers count all.</p>}
      {mayRestore && to !== newest && from === newest && (
        <Action
          label="Restore this version"
          tone="primary"
          run={() => call("POST", `/api/v1/sandboxes/${s.id}/restore`, { version: to }).then(onRestored)}
          confirm={<p>The files of the sandbox become those of this version. Its files of now are saved as a version first.</p>}
        />
      )}
    </>
  );
}
