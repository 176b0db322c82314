import { ChevronDown, ChevronRight, Download } from 'lucide-react';
import { useMemo, useState } from 'react';
import { Button as AriaButton } from 'react-aria-components/Button';
import { Button } from '../button.tsx';
import { CopyButton } from '../copy.tsx';
import { bytes } from '../data/numbers.tsx';
import { escapeText } from './escape-text.ts';

/**
 * Maximum number of characters of an agent's value shown directly. A longer value is cut, and can be copied or
 * downloaded. Values are always rendered as text, never HTML.
 */
export const SHOWN = 256 * 1024;
/** Maximum length of a displayed line, since a line of a megabyte is laid out at once. */
const LONGEST_LINE = 4_000;
/** Maximum number of displayed lines, since each is an element. */
const MAX_LINES = 5_000;
/** Number of members of an object or array shown at once. */
const STEP = 100;

/** Shortens a line for display and appends its length if it was cut. */
export const cutLine = (line: string): string =>
  line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)} … (${line.length} characters)` : line;

function cutLines(text: string): string {
  const lines = text.split('\n');
  const shown = lines.slice(0, MAX_LINES).map(cutLine);
  if (lines.length > MAX_LINES) shown.push(`… (${lines.length} lines)`);
  return shown.join('\n');
}

export function download(name: string, content: string | Blob, type = 'text/plain'): void {
  const url = URL.createObjectURL(typeof content === 'string' ? new Blob([content], { type }) : content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

interface Named {
  /** Name of the downloaded file. */
  readonly name: string;
}

/** Untrusted text: its beginning, its size, and buttons for the full text. */
export function TextView({ text, name }: Named & { readonly text: string }) {
  if (text.length > SHOWN) return <CutText head={text.slice(0, SHOWN)} whole={text} name={`${name}.txt`} />;
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <Lines text={text} />
      <WholeValue text={() => text} name={`${name}.txt`} />
    </div>
  );
}

/**
 * Beginning of a text that is too large to show, its size, and buttons for the full text. @param name of the file, with
 * its extension
 */
export function CutText({ head, whole, name }: Named & { readonly head: string; readonly whole: string | Blob }) {
  const isText = typeof whole === 'string';
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <p className="text-soft">
        The first {bytes(head.length)} of {bytes(isText ? whole.length : whole.size)}.
      </p>
      <Lines text={head} />
      <WholeValue text={() => (isText ? whole : whole.text())} file={isText ? undefined : whole} name={name} />
    </div>
  );
}

function Lines({ text }: { readonly text: string }) {
  const shown = useMemo(() => escapeText(cutLines(text)), [text]);
  return (
    <pre
      dir="ltr"
      // A scrollable area must be reachable by keyboard.
      // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
      tabIndex={0}
      className="max-h-[32rem] overflow-auto rounded-md border border-line bg-panel p-3 font-mono text-xs [unicode-bidi:plaintext] whitespace-pre-wrap"
    >
      {shown}
    </pre>
  );
}

/** Copy and download buttons of a value. @param file to download, if it already exists */
export function WholeValue({
  text,
  file,
  name,
}: Named & { readonly text: () => string | Promise<string>; readonly file?: Blob }) {
  return (
    <div className="flex gap-2 print:hidden">
      <CopyButton text={text} />
      <Button icon={Download} onPress={async () => download(name, file ?? (await text()))}>
        Download
      </Button>
    </div>
  );
}

/** An untrusted JSON value as a collapsible tree. A value that is too large is shown as truncated text. */
export function JsonView({ value, name }: Named & { readonly value: unknown }) {
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? 'null', [value]);
  if (typeof value === 'string') return <TextView text={value} name={name} />;
  if (text.length > SHOWN) return <CutText head={text.slice(0, SHOWN)} whole={text} name={`${name}.json`} />;
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <div
        dir="ltr"
        // A scrollable area must be reachable by keyboard.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
        tabIndex={0}
        className="max-h-[32rem] overflow-auto rounded-md border border-line bg-panel p-3 font-mono text-xs"
      >
        <Node value={value} depth={0} />
      </div>
      <WholeValue text={() => text} name={`${name}.json`} />
    </div>
  );
}

function Node({ label, value, depth }: { readonly label?: string; readonly value: unknown; readonly depth: number }) {
  const [isOpen, setOpen] = useState(depth < 2);
  const [max, setMax] = useState(STEP);
  const prefix = label !== undefined && <span className="text-soft">{escapeText(label)}: </span>;
  if (typeof value !== 'object' || value === null) {
    return (
      <div className="py-px pl-4 [unicode-bidi:plaintext] whitespace-pre-wrap">
        {prefix}
        <Leaf value={value} />
      </div>
    );
  }
  const isArray = Array.isArray(value);
  const members = Object.entries(value);
  const size = isArray ? `[${members.length}]` : `{${members.length}}`;
  if (members.length === 0) {
    return (
      <div className="py-px pl-4">
        {prefix}
        {isArray ? '[]' : '{}'}
      </div>
    );
  }
  const Icon = isOpen ? ChevronDown : ChevronRight;
  return (
    <div className="py-px">
      <AriaButton
        aria-expanded={isOpen}
        onPress={() => setOpen(!isOpen)}
        className="flex items-center rounded text-left hover:bg-hover"
      >
        <Icon size={13} aria-hidden className="mr-0.5 shrink-0 text-soft" />
        <span>
          {prefix}
          <span className="text-soft">{size}</span>
        </span>
      </AriaButton>
      {isOpen && (
        <div className="ml-[6px] border-l border-line pl-2">
          {members.slice(0, max).map(([name, member]) => (
            <Node key={name} label={name} value={member} depth={depth + 1} />
          ))}
          {members.length > max && (
            <AriaButton onPress={() => setMax(max + STEP * 10)} className="pl-4 text-accent hover:underline">
              {members.length - max} more
            </AriaButton>
          )}
        </div>
      )}
    </div>
  );
}

function Leaf({ value }: { readonly value: unknown }) {
  if (typeof value === 'string') {
    return <span className="text-good">{cutLine(escapeText(JSON.stringify(value)))}</span>;
  }
  if (value === null) return <span className="text-soft">null</span>;
  return <span className="text-info">{String(value)}</span>;
}
