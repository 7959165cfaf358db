import { useState } from "preact/hooks";
import { all, Failure, type File, filePath, get, send } from "../api";
import { useCaller } from "../caller";
import { Action, bytes, Empty, Problem, Spinner, useLoad } from "../ui";

const shown = 512 << 10; // bytes of a file that are shown

export function Files({ id }: { id: string }) {
  const [open, setOpen] = useState("");
  return (
    <div class="columns files">
      <section class="tree" aria-label="Files">
        <Folder id={id} path="" depth={0} open={open} onOpen={setOpen} />
      </section>
      <section>{open ? <Viewer key={open} id={id} path={open} /> : <p class="muted">Choose a file to read it.</p>}</section>
    </div>
  );
}

// name shows control characters, which could reorder a name.
const visible = (name: string) => name.replace(/[\p{Cc}\p{Cf}]/gu, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

function Folder({ id, path, depth, open, onOpen }: { id: string; path: string; depth: number; open: string; onOpen: (path: string) => void }) {
  const got = useLoad((signal) => all<File>(`/api/v1/sandboxes/${id}/files?hidden=true&path=${encodeURIComponent(path)}`, 2000, signal), [id, path]);
  const [expanded, setExpanded] = useState<ReadonlySet<string>>(new Set());
  if (got.error !== undefined) return <Problem error={got.error} retry={got.again} />;
  if (!got.value) return <p class="loading">…</p>;
  if (got.value.length === 0) return depth ? <p class="muted">empty</p> : <Empty title="The workspace is empty">An agent or a command can write files here.</Empty>;
  const items = [...got.value].sort((a, b) => Number(b.type === "directory") - Number(a.type === "directory") || a.name.localeCompare(b.name));
  return (
    <ul>
      {items.map((f) => (
        <li key={f.path}>
          {f.type === "directory" ? (
            <>
              <button
                type="button"
                class="plain"
                aria-expanded={expanded.has(f.path)}
                onClick={() => setExpanded((was) => (was.has(f.path) ? new Set([...was].filter((p) => p !== f.path)) : new Set([...was, f.path])))}
              >
                <span class="twist">{expanded.has(f.path) ? "▾" : "▸"}</span> {visible(f.name)}/
              </button>
              {expanded.has(f.path) && <Folder id={id} path={f.path} depth={depth + 1} open={open} onOpen={onOpen} />}
            </>
          ) : (
            <button type="button" class="plain" aria-current={open === f.path} disabled={f.type !== "file" && f.type !== "symlink"} onClick={() => onOpen(f.path)}>
              <span class="twist" /> {visible(f.name)} <small class="muted">{f.type === "file" ? bytes(f.size) : f.type === "symlink" ? "→ " + visible(f.target ?? "") : f.type}</small>
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}

// textOf returns the text of a file, or nothing if writing it back would change other bytes.
function textOf(data: Uint8Array): string | undefined {
  if (data.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return undefined;
  }
}

function Viewer({ id, path }: { id: string; path: string }) {
  const at = `/api/v1/sandboxes/${id}/files/${filePath(path)}`;
  const got = useLoad(
    async (signal) => {
      const stat = await get<File>(at + "?stat=true", signal);
      if (stat.size > shown) return { stat, text: undefined };
      const data = new Uint8Array(await (await send("GET", at, undefined, { signal, headers: { "If-Match": stat.etag } })).arrayBuffer());
      return { stat, text: textOf(data) };
    },
    [id, path],
  );
  const { mayWrite } = useCaller();
  const [draft, setDraft] = useState<string>();
  // write does not replace what another wrote since the file was read. The server has no condition for that, so a write in
  // the moment between the two requests is not noticed.
  const write = async () => {
    const now = await get<File>(at + "?stat=true");
    if (now.etag !== got.value!.stat.etag) throw new Failure(412, "precondition_failed", "the file was changed since you opened it", "Copy your text, discard the draft and reload the file.");
    await send("PUT", at, undefined, { body: draft, headers: { "Content-Type": "application/octet-stream" } });
    setDraft(undefined);
    got.again();
  };
  const save = async () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([await (await send("GET", at)).blob()], { type: "application/octet-stream" }));
    link.download = path.split("/").pop()!;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <>
      <div class="title small">
        <h2>{visible(path)}</h2>
        {got.value && <span class="muted">{bytes(got.value.stat.size)}</span>}
        <button type="button" class="small" onClick={() => void save()}>
          Download
        </button>
        <button type="button" class="small" onClick={got.again}>
          Reload
        </button>
        {mayWrite && got.value?.text !== undefined && got.value.stat.type === "file" && draft === undefined && (
          <button type="button" class="small" onClick={() => setDraft(got.value!.text)}>
            Edit
          </button>
        )}
        {draft !== undefined && (
          <>
            <Action label="Save" tone="primary" run={write} disabled={draft === got.value?.text} />
            <button type="button" onClick={() => setDraft(undefined)}>
              Discard
            </button>
          </>
        )}
      </div>
      {got.error !== undefined && <Problem error={got.error} retry={got.again} />}
      {draft !== undefined && <textarea class="editor" aria-label={"Text of " + visible(path)} spellcheck={false} value={draft} onInput={(e) => setDraft(e.currentTarget.value)} />}
      {draft === undefined && got.value && (got.value.text === undefined ? <Empty title="This file is not shown">It is not text, or larger than {bytes(shown)}.</Empty> : <pre class="viewer">{got.value.text || <i>empty</i>}</pre>)}
      {!got.value && got.error === undefined && <Spinner />}
    </>
  );
}
