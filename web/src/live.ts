// The sandboxes and conversations of the tenant, kept up to date by the stream of changes.
import { useEffect, useState } from "preact/hooks";
import { all, type ChangeEvent, type Conversation, Failure, get, type Sandbox } from "./api";
import { follow } from "./stream";

type Listener = (event?: ChangeEvent) => void;

class Live {
  sandboxes = new Map<string, Sandbox>();
  conversations = new Map<string, Conversation>();
  loaded = false;
  connected = false;
  failure?: Failure;
  private listeners = new Set<Listener>();
  private wanted = new Map<string, "sandbox" | "conversation">();
  private fetching = false;
  private touched = new Set<string>();
  private stop?: AbortController;
  private frame = 0;

  subscribe(f: Listener) {
    this.listeners.add(f);
    return () => void this.listeners.delete(f);
  }

  // changed redraws once for many changes.
  private changed() {
    this.frame ||= window.setTimeout(() => {
      this.frame = 0;
      this.listeners.forEach((f) => f());
    }, 50);
  }

  start() {
    this.stop?.abort();
    this.stop = new AbortController();
    void this.run(this.stop.signal);
  }

  end() {
    this.stop?.abort();
    this.sandboxes.clear();
    this.conversations.clear();
    this.loaded = this.connected = false;
  }

  private async run(signal: AbortSignal) {
    const onState = (connected: boolean) => {
      this.connected = connected;
      this.changed();
    };
    try {
      for await (const { data } of follow<ChangeEvent>("/api/v1/events", signal, onState)) this.take(data, signal);
    } catch (e) {
      if (e instanceof Failure) this.failure = e;
      this.changed();
    }
  }

  private take(e: ChangeEvent, signal: AbortSignal) {
    switch (e.type) {
      case "reset":
        void this.load(signal);
        break;
      case "sandbox": {
        const known = this.sandboxes.get(e.id);
        if (e.deleted && e.state === "terminated") this.sandboxes.delete(e.id);
        else {
          if (known) this.sandboxes.set(e.id, { ...known, state: e.state as Sandbox["state"] });
          this.want(e.id, "sandbox");
        }
        this.touched.add(e.id);
        break;
      }
      case "conversation":
        this.touched.add(e.id);
        if (e.deleted) this.conversations.delete(e.id);
        else this.want(e.id, "conversation");
        break;
      case "turn":
        this.touched.add(e.conversation_id);
        this.want(e.conversation_id, "conversation");
        break;
    }
    this.listeners.forEach((f) => f(e));
    this.changed();
  }

  private async load(signal: AbortSignal) {
    this.touched.clear();
    try {
      const [boxes, talks] = await Promise.all([all<Sandbox>("/api/v1/sandboxes", 5000, signal), all<Conversation>("/api/v1/conversations", 1000, signal)]);
      // What an event named meanwhile is newer than the list.
      const fresh = new Map(boxes.map((s) => [s.id, s]));
      const talk = new Map(talks.map((c) => [c.id, c]));
      for (const id of this.touched) {
        const s = this.sandboxes.get(id);
        const c = this.conversations.get(id);
        if (s) fresh.set(id, s);
        if (c) talk.set(id, c);
      }
      this.sandboxes = fresh;
      this.conversations = talk;
      this.loaded = true;
      this.failure = undefined;
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof Failure) this.failure = e;
      setTimeout(() => !signal.aborted && void this.load(signal), 2000);
    }
    this.changed();
  }

  // want reads a record again, each once however many events name it.
  want(id: string, kind: "sandbox" | "conversation") {
    this.wanted.set(id, kind);
    if (this.fetching) return;
    this.fetching = true;
    setTimeout(() => void this.fetchWanted(), 30);
  }

  private async fetchWanted() {
    while (this.wanted.size > 0) {
      const batch = [...this.wanted].slice(0, 6);
      batch.forEach(([id]) => this.wanted.delete(id));
      await Promise.all(batch.map(([id, kind]) => this.refresh(id, kind)));
      this.changed();
    }
    this.fetching = false;
  }

  private async refresh(id: string, kind: "sandbox" | "conversation") {
    try {
      if (kind === "sandbox") this.sandboxes.set(id, await get<Sandbox>("/api/v1/sandboxes/" + id));
      else this.conversations.set(id, await get<Conversation>("/api/v1/conversations/" + id));
    } catch (e) {
      if (!(e instanceof Failure) || (e.status !== 404 && e.status !== 410)) return;
      if (kind === "sandbox") this.sandboxes.delete(id);
      else this.conversations.delete(id);
    }
  }
}

export const live = new Live();

// useLive redraws the component when anything changed, and passes it the events.
export function useLive(onEvent?: (e: ChangeEvent) => void, deps: unknown[] = []) {
  const [, redraw] = useState(0);
  useEffect(() => live.subscribe((e) => (e ? onEvent?.(e) : redraw((n) => n + 1))), deps);
  return live;
}
