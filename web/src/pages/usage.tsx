import { useState } from "preact/hooks";
import { get, type UsageItem, type UsageReport } from "../api";
import { count, dollars, Empty, Problem, Spinner, useLoad } from "../ui";

const groups = { day: "Day", model: "Model", conversation: "Conversation" } as const;
type Group = keyof typeof groups;

const keyOf = (i: UsageItem, by: Group) => (by === "day" ? i.day : by === "model" ? i.model : i.conversation_id) || "unknown";

function csv(items: UsageItem[], by: Group): string {
  const cell = (v: string | number) => (typeof v === "number" ? String(v) : '"' + v.replace(/^[=+\-@]/, "'$&").replaceAll('"', '""') + '"');
  const lines = items.map((i) => [keyOf(i, by), i.messages, i.usage.input_tokens, i.usage.output_tokens, i.usage.cache_read_tokens, i.usage.cache_write_tokens, i.cost_usd].map(cell).join(","));
  return [[by, "messages", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd"].join(","), ...lines].join("\n") + "\n";
}

export function Usage() {
  const [by, setBy] = useState<Group>("day");
  const [days, setDays] = useState(30);
  const from = new Date(Date.now() - (days - 1) * 86_400_000).toISOString().slice(0, 10);
  const got = useLoad((signal) => get<UsageReport>(`/api/v1/usage?from=${from}&group_by=${by}`, signal), [from, by]);
  const report = got.value;
  const most = Math.max(1, ...(report?.items ?? []).map((i) => i.usage.input_tokens + i.usage.output_tokens));
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(report!.items, by)], { type: "text/csv" }));
    link.download = `usage-by-${by}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <>
      <div class="title">
        <h1>Usage</h1>
        <label>
          by{" "}
          <select value={by} onChange={(e) => setBy(e.currentTarget.value as Group)}>
            {Object.entries(groups).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label>
          of the last{" "}
          <select value={days} onChange={(e) => setDays(Number(e.currentTarget.value))}>
            {[1, 7, 30, 90, 365].map((d) => (
              <option key={d} value={d}>
                {d === 1 ? "day" : d + " days"}
              </option>
            ))}
          </select>
        </label>
        <button type="button" disabled={!report?.items.length} onClick={save}>
          Download CSV
        </button>
      </div>
      {got.error !== undefined && <Problem error={got.error} retry={got.again} />}
      {!report ? (
        got.error === undefined && <Spinner />
      ) : report.items.length === 0 ? (
        <Empty title="Nothing was used in this time">
          <p>Every answer of an agent counts its tokens, and their cost if it is known.</p>
        </Empty>
      ) : (
        <div class="scroll">
          <table class="list numbers">
            <thead>
              <tr>
                <th>{groups[by]}</th>
                <th>Messages</th>
                <th>Tokens in</th>
                <th>Tokens out</th>
                <th>Cache read</th>
                <th>Cache written</th>
                <th>Cost</th>
                <th class="bar" />
              </tr>
            </thead>
            <tbody>
              {report.items.map((i) => (
                <tr key={keyOf(i, by)}>
                  <td>{by === "conversation" && i.conversation_id ? <a href={"#/conversations/" + i.conversation_id}>{i.conversation_id}</a> : keyOf(i, by)}</td>
                  <Numbers item={i} />
                  <td class="bar">
                    <meter min={0} max={most} value={i.usage.input_tokens + i.usage.output_tokens} aria-label="Tokens in and out" />
                  </td>
                </tr>
              ))}
            </tbody>
            <tfoot>
              <tr>
                <th>Total</th>
                <Numbers item={report.total} />
                <td class="bar" />
              </tr>
            </tfoot>
          </table>
          {report.truncated && <p class="muted">More groups are left out; the total has them.</p>}
        </div>
      )}
    </>
  );
}

function Numbers({ item }: { item: UsageItem }) {
  return (
    <>
      <td>{count(item.messages)}</td>
      <td>{count(item.usage.input_tokens)}</td>
      <td>{count(item.usage.output_tokens)}</td>
      <td>{count(item.usage.cache_read_tokens)}</td>
      <td>{count(item.usage.cache_write_tokens)}</td>
      <td>{dollars(item.cost_usd)}</td>
    </>
  );
}
