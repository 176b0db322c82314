import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import {
  bracketMatching,
  defaultHighlightStyle,
  foldGutter,
  indentOnInput,
  syntaxHighlighting,
} from '@codemirror/language';
import { EditorState } from '@codemirror/state';
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view';
import { useEffect, useRef } from 'react';

const THEME = EditorView.theme({
  '&': { backgroundColor: 'var(--ground)', color: 'var(--text)', fontSize: '12px', maxHeight: '32rem' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'var(--font-mono)', lineHeight: '1.5' },
  '.cm-gutters': { backgroundColor: 'var(--panel)', color: 'var(--soft)', border: 'none' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground, ::selection': {
    backgroundColor: 'var(--selected) !important',
  },
  '.cm-content span': { color: 'inherit' },
});

/** The page uses Mod-Enter to run the input. */
const KEYS = defaultKeymap.filter(({ key }) => key !== 'Mod-Enter');

export interface EditorProps {
  /** Read aloud. */
  readonly label: string;
  readonly value: string;
  /** Read-only if omitted. */
  readonly onChange?: (value: string) => void;
  /** @default "json" */
  readonly language?: 'json' | 'text';
}

/**
 * A code editor with line numbers, folding and undo. Tab indents; Esc, then Tab moves the focus out. Load it with
 * `lazy`.
 */
export default function Editor({ label, value, onChange, language = 'json' }: EditorProps) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const change = useRef(onChange);
  change.current = onChange;
  const isReadOnly = onChange === undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text of an editor that is there changes below.
  useEffect(() => {
    const made = new EditorView({
      parent: place.current!,
      state: EditorState.create({
        doc: value,
        extensions: [
          lineNumbers(),
          foldGutter(),
          // Makes characters visible that hide or reorder adjacent text.
          highlightSpecialChars(),
          history(),
          indentOnInput(),
          bracketMatching(),
          syntaxHighlighting(defaultHighlightStyle),
          ...(language === 'json' ? [json()] : []),
          EditorView.lineWrapping,
          EditorState.readOnly.of(isReadOnly),
          // The text scrolls in a box that keys reach only through it.
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          keymap.of([...KEYS, ...historyKeymap, ...(isReadOnly ? [] : [indentWithTab])]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) change.current?.(update.state.doc.toString());
          }),
          THEME,
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, [label, language, isReadOnly]);
  useEffect(() => {
    const { current } = view;
    const text = current?.state.doc.toString();
    if (current === undefined || text === value) return;
    current.dispatch({ changes: { from: 0, to: text!.length, insert: value } });
  }, [value]);
  return <div ref={place} className="overflow-hidden rounded-md border border-edge" />;
}
