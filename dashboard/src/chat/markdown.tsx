import { Marked, type Token, type Tokens } from 'marked';
import { createElement, Fragment, memo, type ReactNode, useMemo } from 'react';
import { classes } from '../ui/classes.ts';
import { OutsideLink } from '../ui/link.tsx';
import { escapeText } from '../ui/text/escape-text.ts';
import { cutLine, TextView } from '../ui/text/viewer.tsx';
import { SmallCopy } from './small-button.tsx';

/** Length up to which a text is read as Markdown: reading a hostile text takes time by the square of its length. */
const MAX_LENGTH = 40_000;
/** Depth up to which lists and quotes are drawn. */
const MAX_DEPTH = 16;

const READER = new Marked({ gfm: true, breaks: true });
/** Links that a browser opens without running or sending anything. */
const SAFE_LINK = /^(https?:\/\/|mailto:)/i;

/**
 * Untrusted Markdown, drawn as elements of this page: HTML in it is text, images are links, and links open elsewhere and
 * only if they are of the web or of mail. A text that is too long or too deep is shown as it is.
 */
const Markdown = memo(function MarkdownText({ text, name }: { readonly text: string; readonly name: string }) {
  const blocks = useMemo(() => blocksOf(text), [text]);
  if (blocks === undefined) return <TextView text={text} name={name} />;
  return (
    <div dir="auto" className="flex min-w-0 flex-col gap-2 text-base [unicode-bidi:plaintext]">
      {drawn(blocks, 0)}
    </div>
  );
});
export default Markdown;

function blocksOf(text: string): readonly Token[] | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  try {
    const blocks = READER.lexer(escapeText(text));
    return depthOf(blocks) > MAX_DEPTH ? undefined : blocks;
  } catch {
    // The reader calls itself for each quote within a quote.
    return undefined;
  }
}

const childrenOf = (token: Token): readonly Token[] => [
  ...(('tokens' in token && token.tokens) || []),
  ...(token.type === 'list' ? (token as Tokens.List).items : []),
];

/** Throws a RangeError for what is deeper than the stack. */
const depthOf = (tokens: readonly Token[]): number =>
  tokens.reduce((deepest, token) => Math.max(deepest, 1 + depthOf(childrenOf(token))), 0);

const drawn = (tokens: readonly Token[], depth: number): ReactNode =>
  // biome-ignore lint/suspicious/noArrayIndexKey: a text that grows keeps its beginning.
  tokens.map((token, index) => <Fragment key={index}>{drawnOne(token as Tokens.Generic, depth)}</Fragment>);

const inner = (token: Tokens.Generic, depth: number): ReactNode =>
  token.tokens === undefined ? plain(token.text ?? token.raw) : drawn(token.tokens, depth + 1);

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  '#39': "'",
  nbsp: '\u00a0',
};

const plain = (text: string): string =>
  cutLine(text).replaceAll(/&(amp|lt|gt|quot|#39|nbsp);/g, (whole, entity: string) => ENTITIES[entity] ?? whole);

function drawnOne(token: Tokens.Generic, depth: number): ReactNode {
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'paragraph':
      return <p>{inner(token, depth)}</p>;
    case 'heading':
      return <h4 className={classes('font-semibold', token.depth <= 2 && 'text-lg')}>{inner(token, depth)}</h4>;
    case 'code':
      return <Code text={token.text} />;
    case 'blockquote':
      return (
        <blockquote className="flex flex-col gap-2 border-l-2 border-edge pl-3 text-soft">
          {inner(token, depth)}
        </blockquote>
      );
    case 'list':
      return createElement(
        token.ordered ? 'ol' : 'ul',
        {
          className: classes('flex flex-col gap-1 pl-5', token.ordered ? 'list-decimal' : 'list-disc'),
          ...(token.ordered && token.start > 1 && { start: token.start }),
        },
        (token as Tokens.List).items.map((item, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a text that grows keeps its beginning.
          <li key={index}>
            {item.task && (item.checked ? '☑ ' : '☐ ')}
            {drawn(
              item.tokens.filter(({ type }) => type !== 'checkbox'),
              depth + 1,
            )}
          </li>
        )),
      );
    case 'table':
      return <MarkdownTable table={token as Tokens.Table} depth={depth} />;
    case 'hr':
      return <hr className="border-line" />;
    case 'br':
      return <br />;
    case 'strong':
      return <strong className="font-semibold">{inner(token, depth)}</strong>;
    case 'em':
      return <em>{inner(token, depth)}</em>;
    case 'del':
      return <del>{inner(token, depth)}</del>;
    case 'codespan':
      return <code className="rounded bg-panel px-1 py-0.5 font-mono text-xs">{cutLine(token.text)}</code>;
    case 'link':
    case 'image':
      return <MarkdownLink href={token.href}>{inner(token, depth)}</MarkdownLink>;
    case 'escape':
    case 'text':
      return inner(token, depth);
    default:
      // HTML among others.
      return plain(token.raw);
  }
}

function Code({ text }: { readonly text: string }) {
  return (
    <div className="relative min-w-0 rounded-md border border-line bg-panel">
      <pre
        dir="ltr"
        // A scrollable area must be reachable by keyboard.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
        tabIndex={0}
        className="max-h-96 overflow-auto p-3 pr-12 font-mono text-xs whitespace-pre"
      >
        {text}
      </pre>
      <div className="absolute top-1 right-1 rounded-md bg-panel">
        <SmallCopy text={text} label="Copy code" />
      </div>
    </div>
  );
}

/** A link, or its text and its address if it is of no known kind. */
function MarkdownLink({ href, children }: { readonly href: string; readonly children: ReactNode }) {
  if (SAFE_LINK.test(href)) return <OutsideLink href={href}>{children}</OutsideLink>;
  return (
    <>
      {children} ({cutLine(href)})
    </>
  );
}

const ALIGNED = { left: 'text-left', center: 'text-center', right: 'text-right' };

function MarkdownTable({ table: { header, rows }, depth }: { readonly table: Tokens.Table; readonly depth: number }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
    <div tabIndex={0} className="max-w-full overflow-x-auto rounded-md border border-line">
      <table className="w-full text-sm">
        <thead>
          <tr className="border-b border-line bg-panel text-left">
            {header.map((cell, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move.
              <th key={index} scope="col" className={classes('px-2 py-1 font-medium', ALIGNED[cell.align ?? 'left'])}>
                {drawn(cell.tokens, depth + 1)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows do not move.
            <tr key={at} className="border-b border-line last:border-0">
              {row.map((cell, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move.
                <td key={index} className={classes('px-2 py-1 align-top', ALIGNED[cell.align ?? 'left'])}>
                  {drawn(cell.tokens, depth + 1)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
