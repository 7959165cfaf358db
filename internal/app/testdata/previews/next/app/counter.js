"use client";
import { useState } from "react";

export default function Counter() {
  const [n, set] = useState(0);
  return <button id="count" onClick={() => set(n + 1)}>first count {n}</button>;
}
