import { useState } from "preact/hooks";
import { call, type Sandbox } from "../api";
import { useCaller } from "../caller";
import { live, useLive } from "../live";
import { Action, Ago, count, Empty, nameOf, plural, Problem, reasonOf, Spinner, State } from "../ui";

export function Command({ text }: { text: string }) {
  return (
    <p class="command">
      <code>{text}</code>
    </p>
  );
}

export const act = (s: Sandbox, verb: string) => call<Sandbox>("POST", `/api/v1/sandboxes/${s.id}/${verb}`).then((got) => void live.sandboxes.set(s.id, got));
export const remove = (s: Sandbox) => call("DELETE", `/api/v1/sandboxes/${s.id}`).then(() => live.want(s.id, "sandbox"));

const resting = (s: Sandbox) => s.state === "stopped" || s.state === "archived" || s.state === "error";

const sorts = {
  name: (a: Sandbox, b: Sandbox) => nameOf(a).localeCompare(nameOf(b)),
  state: (a: Sandbox, b: Sandbox) => a.state.localeCompare(b.state),
  used: (a: Sandbox, b: Sandbox) => b.active_at.localeCompare(a.active_at),
};

const shownAtOnce = 300;

export function Sandboxes() {
  const data = useLive();
  const { mayWrite } = useCaller();
  const [filter, setFilter] = useState("");
  const [sort, setSort] = useState<keyof typeof sorts>("used");
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [more, setMore] = useState(1);
  if (!data.loaded) return data.failure ? <Problem error={data.failure} /> : <Spinner />;
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [...data.sandboxes.values()];
  const found = all.filter((s) => {
    const text = `${s.name ?? ""} ${s.id} ${s.state} ${s.template} ${s.owner.kind} ${s.owner.id} ${s.driver}`.toLowerCase();
    return words.every((w) => text.includes(w));
  });
  found.sort(sorts[sort]);
  const rows = found.slice(0, shownAtOnce * more);
  const chosen = found.filter((s) => picked.has(s.id));
  const toggle = (id: string) => setPicked((was) => (was.has(id) ? new Set([...was].filter((p) => p !== id)) : new Set([...was, id])));
  const each = (boxes: Sandbox[], f: (s: Sandbox) => Promise<unknown>) => async () => {
    const results = await Promise.allSettled(boxes.map(f));
    setPicked(new Set());
    const failed = results.find((r) => r.status === "rejected");
    if (failed) throw (failed as PromiseRejectedResult).reason;
  };
  const head = (key: keyof typeof sorts, label: string) => (
    <th aria-sort={sort === key ? "ascending" : undefined}>
      <button type="button" class="plain" onClick={() => setSort(key)}>
        {label}
      </button>
    </th>
  );
  return (
    <>
      <div class="title">
        <h1>Sandboxes</h1>
        <span class="muted">
          {words.length ? `${count(found.length)} of ${plural(all.length, "sandbox")}` : plural(all.length, "sandbox")}, {count(all.filter((s) => s.state === "running").length)} running
        </span>
        <input type="search" placeholder="Filter by name, state, template, owner" aria-label="Filter" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
      </div>
      {all.length === 0 ? (
        <Empty title="There are no sandboxes">
          <p>A sandbox is a workspace with at most one running machine. Conversations make theirs; you can also make one by hand:</p>
          <Command text="berth create scratch" />
        </Empty>
      ) : found.length === 0 ? (
        <Empty title="No sandbox fits the filter">
          <p>
            <button type="button" onClick={() => setFilter("")}>
              Show all
            </button>
          </p>
        </Empty>
      ) : (
        <>
          {mayWrite && (
            <p class="buttons" aria-live="polite">
              <span class="muted">{chosen.length ? `${count(chosen.length)} chosen` : "Choose rows to act on several at once"}</span>
              {chosen.length > 0 && (
                <>
                  <Action label="Start" run={each(chosen.filter(resting), (s) => act(s, "start"))} />
                  <Action label="Stop" run={each(chosen.filter((s) => !resting(s)), (s) => act(s, "stop"))} confirm={<p>Stop {count(chosen.length)} sandboxes? Their files are kept.</p>} />
                  <Action label="Delete" tone="danger" run={each(chosen, remove)} confirm={<p>Delete {count(chosen.length)} sandboxes? Their workspaces are saved a last time.</p>} />
                </>
              )}
            </p>
          )}
          <div class="scroll">
            <table class="list">
              <thead>
                <tr>
                  {mayWrite && (
                    <th class="pick">
                      <input type="checkbox" aria-label="Choose all" checked={chosen.length === found.length} onChange={(e) => setPicked(new Set(e.currentTarget.checked ? found.map((s) => s.id) : []))} />
                    </th>
                  )}
                  {head("name", "Name")}
                  {head("state", "State")}
                  <th class="why">Why</th>
                  <th class="less">Template</th>
                  {head("used", "Last use")}
                  {mayWrite && <th />}
                </tr>
              </thead>
              <tbody>
                {rows.map((s) => (
                  <tr key={s.id}>
                    {mayWrite && (
                      <td class="pick">
                        <input type="checkbox" aria-label={"Choose " + nameOf(s)} checked={picked.has(s.id)} onChange={() => toggle(s.id)} />
                      </td>
                    )}
                    <td class="name">
                      <a href={"#/sandboxes/" + s.id}>{nameOf(s)}</a>
                    </td>
                    <td>
                      <State of={s.state} frozen={s.frozen} />
                    </td>
                    <td class="why" title={reasonOf(s)}>
                      {reasonOf(s)}
                    </td>
                    <td class="less">{s.template}</td>
                    <td>
                      <Ago at={s.active_at} />
                    </td>
                    {mayWrite && (
                      <td class="actions">
                        {resting(s) ? <Action label="Start" run={() => act(s, "start")} /> : <Action label="Stop" run={() => act(s, "stop")} disabled={s.state !== "running" && s.state !== "unhealthy"} />}
                      </td>
                    )}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {rows.length < found.length && (
            <p>
              <button type="button" onClick={() => setMore(more + 1)}>
                Show {count(Math.min(shownAtOnce, found.length - rows.length))} more
              </button>
            </p>
          )}
        </>
      )}
    </>
  );
}
