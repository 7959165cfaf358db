import type { ComponentChildren } from "preact";
import { get, type UsageReport } from "../api";
import { useLive } from "../live";
import { Ago, count, dollars, Empty, nameOf, plural, Problem, reasonOf, Spinner, State, useLoad } from "../ui";
import { Command } from "./sandboxes";

function Recent({ title, more, count, children }: { title: string; more: string; count: number; children: ComponentChildren }) {
  return count === 0 ? null : (
    <section>
      <h2>{title}</h2>
      <ul class="rows">{children}</ul>
      {count > 8 && (
        <p>
          <a href={more}>All of them</a>
        </p>
      )}
    </section>
  );
}

export function Overview() {
  const live = useLive();
  const today = new Date().toISOString().slice(0, 10);
  const usage = useLoad((signal) => get<UsageReport>(`/api/v1/usage?from=${today}&to=${today}`, signal), [today]);
  const boxes = [...live.sandboxes.values()];
  const bad = boxes.filter((s) => s.error || s.save_error || s.state === "unhealthy" || s.state === "error");
  const talks = [...live.conversations.values()].sort((a, b) => b.updated_at.localeCompare(a.updated_at));
  const working = [...live.conversations.values()].filter((c) => c.status === "running");
  const total = usage.value?.total;
  if (!live.loaded) return live.failure ? <Problem error={live.failure} /> : <Spinner />;
  return (
    <>
      <h1>Overview</h1>
      <div class="cards">
        <a class="card" href="#/sandboxes">
          <b>{count(boxes.filter((s) => s.state === "running").length)}</b> running
          <small>{plural(boxes.length, "sandbox")}</small>
        </a>
        <a class="card" href="#/conversations">
          <b>{count(working.length)}</b> at work
          <small>{plural(live.conversations.size, "conversation")}</small>
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
      <div class="columns">
        <Recent title="Newest conversations" more="#/conversations" count={talks.length}>
          {talks.slice(0, 8).map((c) => (
            <li key={c.id}>
              <State of={c.status} /> <a href={"#/conversations/" + c.id}>{c.title || "Untitled"}</a>{" "}
              <span class="muted">
                {c.template} · <Ago at={c.updated_at} />
              </span>
            </li>
          ))}
        </Recent>
        <Recent title="Sandboxes by last use" more="#/sandboxes" count={boxes.length}>
          {[...boxes]
            .sort((a, b) => b.active_at.localeCompare(a.active_at))
            .slice(0, 8)
            .map((s) => (
              <li key={s.id}>
                <State of={s.state} frozen={s.frozen} /> <a href={"#/sandboxes/" + s.id}>{nameOf(s)}</a>{" "}
                <span class="muted">
                  {s.template} · <Ago at={s.active_at} />
                </span>
              </li>
            ))}
        </Recent>
      </div>
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
