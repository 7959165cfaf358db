import { useState } from "preact/hooks";
import { all, type File, filePath, get, send } from "../api";
import { bytes, Empty, Problem, Spinner, useLoad } from "../ui";

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

function Viewer({ id, path }: { id: string; path: string }) {
  const at = `/api/v1/sandboxes/${id}/files/${filePath(path)}`;
  const got = useLoad(
    async (signal) => {
      const stat = await get<File>(at + "?stat=true", signal);
      if (stat.size > shown) return { stat, text: undefined };
      const data = new Uint8Array(await (await send("GET", at, undefined, { signal })).arrayBuffer());
      if (data.includes(0)) return { stat, text: undefined };
      return { stat, text: new TextDecoder().decode(data) };
    },
    [id, path],
  );
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
      </div>
      {got.error !== undefined && <Problem error={got.error} retry={got.again} />}
      {got.value && (got.value.text === undefined ? <Empty title="This file is not shown">It is not text, or larger than {bytes(shown)}.</Empty> : <pre class="viewer">{got.value.text || <i>empty</i>}</pre>)}
      {!got.value && got.error === undefined && <Spinner />}
    </>
  );
}
