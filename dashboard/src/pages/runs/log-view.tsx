import { useNavigate, useSearch } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useMemo, useRef } from 'react';
import { AnsiText } from '../../ui/ansi-text.tsx';
import { classes } from '../../ui/classes.ts';
import { Select, TextField } from '../../ui/field.tsx';
import { count } from '../../ui/numbers.tsx';
import { cutLine, WholeValue } from '../../ui/viewer.tsx';
import { type LogPiece, logLines } from './log-lines.ts';

const LINE_HEIGHT = 18;
/** So near to the end that new lines are to be followed. */
const NEAR_PX = 60;

interface LogSearch {
  readonly stream?: LogPiece['stream'];
  readonly find?: string;
}

/** What a run printed, from its beginning. New lines are followed while the end is in sight. */
export function LogView({
  name,
  pieces,
  isOver,
}: {
  readonly name: string;
  readonly pieces: readonly LogPiece[];
  readonly isOver: boolean;
}) {
  const { stream, find = '' } = useSearch({ strict: false }) as LogSearch;
  const navigate = useNavigate();
  const change = (next: LogSearch) =>
    void navigate({ to: '.', search: (old: object) => ({ ...old, ...next }), replace: true } as never);
  const all = useMemo(() => logLines(pieces, stream), [pieces, stream]);
  const lines = useMemo(() => {
    const wanted = find.toLowerCase();
    return wanted === '' ? all : all.filter(({ text }) => text.toLowerCase().includes(wanted));
  }, [all, find]);
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
  });
  useEffect(() => {
    if (isAtEnd.current && lines.length > 0 && !isOver) rows.scrollToIndex(lines.length - 1);
  }, [lines.length, isOver, rows]);
  if (pieces.length === 0) {
    return <p className="text-soft">{isOver ? 'The run printed nothing.' : 'Nothing was printed yet.'}</p>;
  }
  return (
    <div className="flex min-w-0 flex-col gap-3">
      <div className="flex flex-wrap items-end gap-3" data-filter>
        <div className="w-56">
          <TextField label="Lines with" value={find} onChange={(next) => change({ find: next || undefined })} />
        </div>
        <div className="w-36">
          <Select
            label="Stream"
            value={stream ?? ''}
            onChange={(next) => change({ stream: (next || undefined) as LogSearch['stream'] })}
            choices={[
              { id: '', label: 'Both' },
              { id: 'stdout', label: 'stdout' },
              { id: 'stderr', label: 'stderr' },
            ]}
          />
        </div>
        <span className="pb-1.5 text-soft">
          {lines.length === all.length ? count(all.length) : `${count(lines.length)} of ${count(all.length)}`} lines
        </span>
        <span className="grow" />
        <WholeValue text={() => pieces.map(({ text }) => text).join('')} name={`${name}-log.txt`} />
      </div>
      <section
        ref={box}
        aria-label="Log"
        // A scrolled area must be reachable by keyboard.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
        tabIndex={0}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_PX;
        }}
        dir="ltr"
        className="max-h-[65dvh] overflow-auto rounded-md border border-line bg-panel py-2 font-mono text-xs"
      >
        <div style={{ height: rows.getTotalSize(), position: 'relative' }}>
          {rows.getVirtualItems().map(({ index, start }) => {
            const line = lines[index]!;
            return (
              <div
                key={index}
                ref={rows.measureElement}
                data-index={index}
                className={classes(
                  'absolute inset-x-0 border-l-2 px-3 [unicode-bidi:plaintext] whitespace-pre-wrap',
                  line.stream === 'stderr' ? 'border-warn' : 'border-transparent',
                )}
                style={{ transform: `translateY(${start}px)`, minHeight: LINE_HEIGHT }}
              >
                <AnsiText text={cutLine(line.text)} />
              </div>
            );
          })}
        </div>
      </section>
    </div>
  );
}
