import { cookies } from "next/headers";
import Counter from "./counter";

async function save(form) {
  "use server";
  (await cookies()).set("name", form.get("name"), { httpOnly: true });
}

export default async function Page() {
  const name = (await cookies()).get("name")?.value ?? "no name";
  return (
    <main>
      <p id="name">{name}</p>
      <form action={save}><input name="name" /><button id="save">Save</button></form>
      <Counter />
    </main>
  );
}
