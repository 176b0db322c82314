import { useMemo } from 'react';
import { piecesOf } from './ansi.ts';
import { escapeText } from './escape-text.ts';

/** Untrusted text with terminal colours. Its parent element must preserve white space. */
export function AnsiText({ text }: { readonly text: string }) {
  const pieces = useMemo(() => piecesOf(text), [text]);
  return pieces.map(({ text: part, look }, index) =>
    look === '' ? (
      escapeText(part)
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: pieces do not move.
      <span key={index} className={look}>
        {escapeText(part)}
      </span>
    ),
  );
}
