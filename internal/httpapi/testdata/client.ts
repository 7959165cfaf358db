// A program that a user of the generated types may write. It must compile with all strict checks.
import type { components, paths } from "./schema";

type TurnEvent = components["schemas"]["TurnEvent"];
type ExecEvent = components["schemas"]["ExecEvent"];

// The compiler knows the fields of each event by its type.
export function show(e: TurnEvent): string {
  switch (e.type) {
    case "text.delta":
      return e.text;
    case "turn.finished":
      return e.status;
    case "usage":
      return String(e.usage.input_tokens);
    default:
      return "";
  }
}

export function exitCode(e: ExecEvent): number | undefined {
  return e.type === "exit" ? e.exit_code : undefined;
}

// A command answers JSON, and its stream events: two operations, each with one kind of content.
type Contents<P extends keyof paths> = paths[P] extends { post: { responses: { 200: { content: infer C } } } } ? keyof C : never;
export const json: Contents<"/api/v1/sandboxes/{id}/exec"> = "application/json";
export const stream: Contents<"/api/v1/sandboxes/{id}/exec/stream"> = "text/event-stream";
