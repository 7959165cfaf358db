// Markdown of a model, drawn as elements: no text of it is ever parsed as HTML.
import type { ComponentChildren } from "preact";
import { lexer, type Token, type Tokens } from "marked";

const safe = /^(https?:|mailto:)/i;

function Link({ href, children }: { href: string; children: ComponentChildren }) {
  return safe.test(href) ? (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  ) : (
    <span title={href}>{children}</span>
  );
}

const draw = (tokens: Token[] | undefined): ComponentChildren => tokens?.map((t, i) => <One key={i} token={t} />);

function plain(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => ({ amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" })[name] ?? "");
}

function One({ token }: { token: Token }) {
  switch (token.type) {
    case "space":
      return null;
    case "hr":
      return <hr />;
    case "br":
      return <br />;
    case "heading": {
      const Tag = `h${Math.min((token as Tokens.Heading).depth + 2, 6)}` as "h3";
      return <Tag>{draw(token.tokens)}</Tag>;
    }
    case "paragraph":
      return <p>{draw(token.tokens)}</p>;
    case "blockquote":
      return <blockquote>{draw(token.tokens)}</blockquote>;
    case "list": {
      const list = token as Tokens.List;
      const items = list.items.map((item, i) => (
        <li key={i}>
          {item.task && <input type="checkbox" checked={item.checked} disabled />} {draw(item.tokens)}
        </li>
      ));
      return list.ordered ? <ol start={list.start || 1}>{items}</ol> : <ul>{items}</ul>;
    }
    case "code":
      return <Code text={token.text as string} lang={(token as Tokens.Code).lang} />;
    case "table": {
      const table = token as Tokens.Table;
      return (
        <div class="scroll">
          <table>
            <thead>
              <tr>{table.header.map((c, i) => <th key={i}>{draw(c.tokens)}</th>)}</tr>
            </thead>
            <tbody>
              {table.rows.map((r, i) => (
                <tr key={i}>{r.map((c, j) => <td key={j}>{draw(c.tokens)}</td>)}</tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    }
    case "strong":
      return <strong>{draw(token.tokens)}</strong>;
    case "em":
      return <em>{draw(token.tokens)}</em>;
    case "del":
      return <del>{draw(token.tokens)}</del>;
    case "codespan":
      return <code>{plain(token.text as string)}</code>;
    case "link":
      return <Link href={(token as Tokens.Link).href}>{draw(token.tokens)}</Link>;
    case "image": // loading it would tell another server that it was read
      return <Link href={(token as Tokens.Image).href}>{(token as Tokens.Image).text || "image"}</Link>;
    case "text":
    case "escape":
      return "tokens" in token && token.tokens ? <>{draw(token.tokens)}</> : <>{plain(token.text as string)}</>;
    default: // HTML, and what a later version adds
      return <>{token.raw}</>;
  }
}

export function Code({ text, lang }: { text: string; lang?: string }) {
  return (
    <div class="code">
      <button class="copy" type="button" onClick={() => void navigator.clipboard?.writeText(text)} title="Copy">
        copy
      </button>
      {lang && <span class="lang">{lang.split(/\s/)[0]}</span>}
      <pre>
        <code>{text}</code>
      </pre>
    </div>
  );
}

export function Markdown({ text }: { text: string }) {
  return <div class="markdown">{draw(lexer(text))}</div>;
}
