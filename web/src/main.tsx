import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Caller, Failure, get, whenSignedOut } from "./api";
import { CallerContext } from "./caller";
import { live, useLive } from "./live";
import { Conversations } from "./pages/conversations";
import { Overview } from "./pages/overview";
import { SandboxPage } from "./pages/sandbox";
import { Sandboxes } from "./pages/sandboxes";
import { Usage } from "./pages/usage";
import { Problem, Spinner } from "./ui";

const themes = ["auto", "light", "dark"] as const;
type Theme = (typeof themes)[number];

function storedTheme(): Theme {
  const stored = localStorage.getItem("theme") as Theme;
  return themes.includes(stored) ? stored : "auto";
}

function showTheme(theme: Theme) {
  localStorage.setItem("theme", theme);
  document.documentElement.dataset["theme"] = theme;
}

function useHash(): string[] {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").map(decode);
  const [route, set] = useState(read);
  useEffect(() => {
    const change = () => set(read());
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return route;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const places = { "": "Overview", sandboxes: "Sandboxes", conversations: "Conversations", usage: "Usage" };

function Page({ route }: { route: string[] }) {
  const [place, id, more] = route;
  switch (place) {
    case "sandboxes":
      return id ? <SandboxPage key={id} id={id} tab={more} /> : <Sandboxes />;
    case "conversations":
      return <Conversations id={id} />;
    case "usage":
      return <Usage />;
    case "":
      return <Overview />;
  }
  return <Problem error={new Failure(404, "not_found", "there is no such page")} />;
}

function Shell({ caller }: { caller: Caller }) {
  const route = useHash();
  const data = useLive();
  const [theme, setTheme] = useState(storedTheme);
  useEffect(() => {
    live.start();
    return () => live.end();
  }, [caller.key_id]);
  const running = [...data.conversations.values()].filter((c) => c.status === "running").length;
  const place = places[(route[0] ?? "") as keyof typeof places] ?? "Berth";
  useEffect(() => {
    document.title = (running ? `(${running}) ` : "") + place + " · Berth";
  }, [running, place]);
  return (
    <CallerContext.Provider value={caller}>
      <a class="skip" href="#content" onClick={(e) => (e.preventDefault(), document.getElementById("content")?.focus())}>
        Skip to the content
      </a>
      <header class="bar">
        <a class="brand" href="#/">
          Berth
        </a>
        <nav aria-label="Pages">
          {Object.entries(places).map(([key, label]) => (
            <a key={key} href={"#/" + key} aria-current={(route[0] ?? "") === key ? "page" : undefined}>
              {label}
            </a>
          ))}
          <a href="/docs">API</a>
        </nav>
        <span class="grow" />
        {!data.connected && data.loaded && <span class="state warn">connecting again</span>}
        <span class="muted who" title={`key ${caller.label ?? caller.key_id}`}>
          {caller.tenant} · {caller.scope}
        </span>
        <button
          type="button"
          class="plain"
          title="Light, dark, or as the system"
          onClick={() => {
            const next = themes[(themes.indexOf(theme) + 1) % themes.length]!;
            showTheme(next);
            setTheme(next);
          }}
        >
          theme: {theme}
        </button>
        <button
          type="button"
          class="plain"
          onClick={async () => {
            await fetch("/logout", { method: "POST", redirect: "manual" });
            signedOut();
          }}
        >
          Sign out
        </button>
      </header>
      <div id="content" tabIndex={-1} class={"page " + (route[0] || "overview")}>
        <Page route={route} />
      </div>
    </CallerContext.Provider>
  );
}

// signIn sends the form of /login: a key or the token of a link.
async function signIn(form: Record<string, string>, refused: string): Promise<void> {
  const answer = await fetch("/login", { method: "POST", redirect: "manual", headers: { "Content-Type": "application/x-www-form-urlencoded" }, body: new URLSearchParams({ ...form, next: "/" }) });
  if (answer.type === "opaqueredirect" || answer.ok) return;
  throw new Failure(answer.status, answer.status === 401 ? "unauthenticated" : "unexpected_answer", answer.status === 401 ? refused : `the server answered with the status ${answer.status}`);
}

function SignIn({ onDone, problem }: { onDone: () => void; problem?: unknown }) {
  const [key, setKey] = useState("");
  const [error, setError] = useState(problem);
  const submit = async () => {
    setError(undefined);
    try {
      await signIn({ key }, "This key is not valid, or no longer.");
      onDone();
    } catch (e) {
      setError(e instanceof Failure ? e : new Failure(0, "server_unreachable", "the server did not answer"));
    }
  };
  return (
    <main class="signin">
      <form
        class="panel"
        onSubmit={(e) => {
          e.preventDefault();
          void submit();
        }}
      >
        <h1>Berth</h1>
        <label>
          API key
          <input type="password" autocomplete="current-password" autofocus required value={key} onInput={(e) => setKey(e.currentTarget.value)} />
        </label>
        {error !== undefined && <Problem error={error} />}
        <button class="primary">Sign in</button>
        <p class="muted">
          <code>berth console</code> prints a link that signs you in. The server prints where its first key is kept when it starts.
        </p>
      </form>
    </main>
  );
}

let signedOut = () => {};

function App() {
  const [caller, setCaller] = useState<Caller | null>();
  const [error, setError] = useState<unknown>();
  const [problem, setProblem] = useState<unknown>();
  const look = () => {
    setError(undefined);
    get<Caller>("/api/v1/caller").then(setCaller, (e) => (e instanceof Failure && e.status === 401 ? setCaller(null) : setError(e)));
  };
  useEffect(() => {
    signedOut = () => setCaller(null);
    whenSignedOut(signedOut);
    const link = /^#\/sign-in\/([\w.-]+)$/.exec(location.hash)?.[1];
    if (!link) return look();
    history.replaceState(null, "", "/"); // the token works once, and is not to stay in the history
    signIn({ link }, "This link is not valid, or was used before.").then(look, (e) => {
      setProblem(e);
      setCaller(null);
    });
  }, []);
  if (error !== undefined) return <Problem error={error} retry={look} />;
  if (caller === undefined) return <Spinner />;
  return caller === null ? <SignIn onDone={look} problem={problem} /> : <Shell caller={caller} />;
}

showTheme(storedTheme());
render(<App />, document.getElementById("app")!);
