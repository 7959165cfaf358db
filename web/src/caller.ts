// The signed-in key and what it may do.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Caller } from "./api";

export const CallerContext = createContext<Caller | undefined>(undefined);

export function useCaller() {
  const caller = useContext(CallerContext)!;
  return { caller, mayWrite: caller.scope !== "read", mayAdmin: caller.scope === "admin" };
}
