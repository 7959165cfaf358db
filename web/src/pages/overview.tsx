import { get, type UsageReport } from "../api";
import { useLive } from "../live";
import { count, dollars, Empty, nameOf, Problem, reasonOf, Spinner, State, useLoad } from "../ui";
import { Command } from "./sandboxes";

export function Overview() {
  const live = useLive();
  const today = new Date().toISOString().slice(0, 10);
  const usage = useLoad((signal) => get<UsageReport>(`/api/v1/usage?from=${today}&to=${today}`, signal), [today]);
  const boxes = [...live.sandboxes.values()];
  const bad = boxes.filter((s) => s.error || s.save_error || s.state === "unhealthy" || s.state === "error");
  const working = [...live.conversations.values()].filter((c) => c.status === "running");
  const total = usage.value?.total;
  if (!live.loaded) return live.failure ? <Problem error={live.failure} /> : <Spinner />;
  return (
    <>
      <h1>Overview</h1>
      <div class="cards">
        <a class="card" href="#/sandboxes">
          <b>{count(boxes.filter((s) => s.state === "running").length)}</b> running
          <small>{count(boxes.length)} sandboxes</small>
        </a>
        <a class="card" href="#/conversations">
          <b>{count(working.length)}</b> turns
          <small>{count(live.conversations.size)} conversations</small>
        </a>
        <a class="card" href="#/usage">
          <b>{total ? dollars(total.cost_usd) : "…"}</b> today
          <small>{total ? count(total.usage.input_tokens + total.usage.output_tokens) + " tokens in and out" : ""}</small>
        </a>
        <div class={"card" + (bad.length ? " alarm" : "")}>
          <b>{count(bad.length)}</b> need a look
          <small>{bad.length ? "see below" : "nothing failed"}</small>
        </div>
      </div>
      {usage.error !== undefined && <Problem error={usage.error} retry={usage.again} />}
      {bad.length > 0 && (
        <section>
          <h2>Failing, and why</h2>
          <ul class="rows">
            {bad.slice(0, 50).map((s) => (
              <li key={s.id}>
                <State of={s.state} /> <a href={"#/sandboxes/" + s.id}>{nameOf(s)}</a> <span class="muted">{reasonOf(s)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {working.length > 0 && (
        <section>
          <h2>At work</h2>
          <ul class="rows">
            {working.map((c) => (
              <li key={c.id}>
                <State of="running" /> <a href={"#/conversations/" + c.id}>{c.title || "Untitled"}</a> <span class="muted">{c.template}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {boxes.length === 0 && live.conversations.size === 0 && (
        <Empty title="Nothing runs yet">
          <p>Talk with an agent, and watch it work in a sandbox of its own. The demo agent needs no key.</p>
          <p>
            <a class="button primary" href="#/conversations/new">
              New conversation
            </a>
          </p>
          <Command text={'berth chat "write notes.txt: hello"'} />
        </Empty>
      )}
    </>
  );
}
