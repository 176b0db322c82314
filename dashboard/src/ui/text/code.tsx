import { CopyIcon } from '../copy.tsx';

/** A command or code snippet with a copy button. */
export function CodeBlock({ text, label = 'Copy' }: { readonly text: string; readonly label?: string }) {
  return (
    <div className="relative rounded-md border border-line bg-panel">
      <pre
        // A scrollable area must be reachable by keyboard.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
        tabIndex={0}
        className="max-h-96 overflow-auto p-3 pr-12 font-mono text-xs whitespace-pre"
      >
        {text}
      </pre>
      <div className="absolute top-1 right-1 rounded-md bg-panel">
        <CopyIcon text={text} label={label} />
      </div>
    </div>
  );
}

/** Inline code. */
export function Code({ children }: { readonly children: string }) {
  return <code className="rounded bg-panel px-1 py-0.5 font-mono text-xs text-text">{children}</code>;
}
