import { useState } from "preact/hooks";
import { all, call, type Conversation, type Template } from "../api";
import { useCaller } from "../caller";
import { live, useLive } from "../live";
import { Action, Ago, count, dollars, Empty, Problem, Spinner, State, useLoad } from "../ui";
import { Chat } from "./chat";
import { Command } from "./sandboxes";

export function Conversations({ id }: { id?: string }) {
  const data = useLive();
  const { mayWrite } = useCaller();
  const list = [...data.conversations.values()].sort((a, b) => b.updated_at.localeCompare(a.updated_at));
  return (
    <div class={"talks" + (id ? " open" : "")}>
      <aside>
        <div class="title">
          <h1>Conversations</h1>
          {mayWrite && (
            <a class="button" href="#/conversations/new">
              New
            </a>
          )}
        </div>
        {!data.loaded ? (
          data.failure ? <Problem error={data.failure} /> : <Spinner />
        ) : (
          <ul class="talk-list">
            {list.slice(0, 300).map((c) => (
              <li key={c.id}>
                <a href={"#/conversations/" + c.id} aria-current={c.id === id ? "page" : undefined}>
                  <b>{c.title || "Untitled"}</b>
                  <small>
                    {c.status === "running" && <State of="running" />} {c.template} · <Ago at={c.updated_at} /> · {count(c.stats.messages_exchanged)} messages
                    {c.stats.total_cost_usd > 0 && " · " + dollars(c.stats.total_cost_usd)}
                  </small>
                </a>
              </li>
            ))}
          </ul>
        )}
      </aside>
      <main>
        {id === "new" ? (
          <NewConversation />
        ) : id ? (
          <Chat key={id} id={id} />
        ) : (
          data.loaded && (
            <Empty title={list.length ? "Choose a conversation" : "There are no conversations yet"}>
              <p>A conversation is prompts and answers with one agent in one sandbox.</p>
              {mayWrite && (
                <p>
                  <a class="button primary" href="#/conversations/new">
                    New conversation
                  </a>
                </p>
              )}
              <Command text={'berth chat "write notes.txt: hello"'} />
            </Empty>
          )
        )}
      </main>
    </div>
  );
}

function NewConversation() {
  const templates = useLoad((signal) => all<Template>("/api/v1/templates", 500, signal), []);
  const [template, setTemplate] = useState("");
  const [title, setTitle] = useState("");
  if (templates.error !== undefined) return <Problem error={templates.error} retry={templates.again} />;
  if (!templates.value) return <Spinner />;
  const agents = templates.value.filter((t) => t.runtime);
  const chosen = template || (agents.find((t) => t.default && !t.missing_key) ?? agents.find((t) => t.name === "demo") ?? agents[0])?.name || "";
  const one = agents.find((t) => t.name === chosen);
  return (
    <form class="panel" onSubmit={(e) => e.preventDefault()}>
      <h2>New conversation</h2>
      <label>
        Agent
        <select value={chosen} onChange={(e) => setTemplate(e.currentTarget.value)}>
          {agents.map((t) => (
            <option key={t.name} value={t.name}>
              {t.name}
              {t.missing_key ? " (needs a key)" : ""}
            </option>
          ))}
        </select>
      </label>
      <p class="muted">{one?.description}</p>
      {one?.missing_key && (
        <p class="problem">
          {one.missing_key}
        </p>
      )}
      <label>
        Title
        <input value={title} maxLength={200} placeholder="optional" onInput={(e) => setTitle(e.currentTarget.value)} />
      </label>
      <p class="buttons">
        <Action
          label="Begin"
          tone="primary"
          run={async () => {
            const made = await call<Conversation>("POST", "/api/v1/conversations", { template: chosen, ...(title && { title }) });
            live.conversations.set(made.id, made);
            location.hash = "#/conversations/" + made.id;
          }}
        />
      </p>
    </form>
  );
}
