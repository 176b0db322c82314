import { useVirtualizer } from '@tanstack/react-virtual';
import { ArrowDown, Search } from 'lucide-react';
import { type ReactNode, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { Button } from '../button.tsx';
import { classes } from '../classes.ts';
import { count } from '../data/numbers.tsx';
import { TextField } from '../field.tsx';
import { AnsiText } from './ansi-text.tsx';
import { cutLine, WholeValue } from './viewer.tsx';

export interface LogLine {
  readonly key: string | number;
  /** ISO 8601. */
  readonly at?: string | null;
  /** Log level, such as `WARNING`. */
  readonly level?: string;
  readonly stream?: 'stdout' | 'stderr';
  /** Author of the line, such as `platform`, which the text cannot prove. */
  readonly source?: string | undefined;
  readonly text: string;
}

const LINE_HEIGHT = 20;
/** Maximum distance from the end at which new lines scroll into view. */
const END_PX = 40;
const CLOCK = new Intl.DateTimeFormat('en-GB', {
  ...({ hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 } as const),
});
const COLOURS: Readonly<Record<string, string>> = {
  DEBUG: 'text-soft',
  WARNING: 'text-warn',
  ERROR: 'text-bad',
  CRITICAL: 'text-bad font-bold',
};

/** An untrusted log with a text filter and buttons. */
export function LogView({
  lines,
  find,
  onFind,
  choice,
  name,
  whole,
  empty,
  ...list
}: {
  /** Accessible name of the log. */
  readonly label: string;
  readonly lines: readonly LogLine[];
  /** Case-insensitive text filter. */
  readonly find: string;
  readonly onFind: (text: string) => void;
  /** Additional filter, applied by the caller. */
  readonly choice: ReactNode;
  /** Name of the downloaded file. */
  readonly name: string;
  /** Returns the raw log. @default - each line with its time and level */
  readonly whole?: () => string;
  /** Whether more lines may arrive; if so, the view follows the end, otherwise it starts at the beginning. */
  readonly isLive: boolean;
  /** Shown if there are no lines. */
  readonly empty: ReactNode;
}) {
  const shown = useMemo(() => {
    const wanted = find.toLowerCase();
    return wanted === '' ? lines : lines.filter(({ text }) => text.toLowerCase().includes(wanted));
  }, [lines, find]);
  const text = () => (whole === undefined || shown.length < lines.length ? textOf(shown) : whole());
  return (
    <div className="flex min-w-0 flex-col gap-3">
      <div className="flex flex-wrap items-center gap-2" data-filter>
        <div className="w-64 max-w-full">
          <TextField
            label="Filter lines"
            isLabelHidden
            placeholder="Filter lines"
            icon={<Search size={14} aria-hidden />}
            value={find}
            onChange={onFind}
          />
        </div>
        <div className="w-48">{choice}</div>
        <span className="grow text-soft">
          {shown.length === lines.length ? count(lines.length) : `${count(shown.length)} of ${count(lines.length)}`}{' '}
          lines
        </span>
        <WholeValue text={text} name={name} />
      </div>
      {lines.length === 0 && empty}
      {lines.length > 0 && shown.length === 0 && <p className="text-soft">No lines match.</p>}
      {shown.length > 0 && <Lines {...list} lines={shown} />}
    </div>
  );
}

const textOf = (lines: readonly LogLine[]): string =>
  lines
    .map(({ at, level, source, text }) => `${[at, level, source, text].filter((part) => part != null).join(' ')}\n`)
    .join('');

/** Virtualised lines. The view follows the end until the user scrolls up. */
function Lines({
  label,
  lines,
  isLive,
}: {
  readonly label: string;
  readonly lines: readonly LogLine[];
  readonly isLive: boolean;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [isFollowing, setFollowing] = useState(isLive);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    getItemKey: (index) => lines[index]!.key,
    overscan: 20,
  });
  const last = lines.at(-1)?.key;
  // biome-ignore lint/correctness/useExhaustiveDependencies: when there are other lines, or following begins.
  useLayoutEffect(() => {
    if (isFollowing && last !== undefined) rows.scrollToIndex(lines.length - 1, { align: 'end' });
  }, [last, lines.length, isFollowing]);
  const lookWhere = () => {
    const { scrollHeight, scrollTop, clientHeight } = box.current!;
    setFollowing(scrollHeight - scrollTop - clientHeight < END_PX);
  };
  const isCut = rows.getTotalSize() > (rows.scrollRect?.height ?? 0);
  return (
    <div className="relative min-w-0">
      <div
        ref={box}
        role="log"
        aria-live="off"
        aria-label={label}
        // A scrollable area must be reachable by keyboard.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
        tabIndex={0}
        dir="ltr"
        onScroll={lookWhere}
        className="max-h-[min(36rem,70dvh)] overflow-y-auto rounded-lg border border-line bg-panel py-1 font-mono text-xs"
      >
        <div className="relative" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ index, key, start }) => {
            const { at, level, source, stream, text } = lines[index]!;
            return (
              <div
                key={key}
                ref={rows.measureElement}
                data-index={index}
                className={classes(
                  'absolute inset-x-0 flex gap-2 border-l-2 px-3 py-px leading-[18px] hover:bg-hover',
                  stream === 'stderr' ? 'border-warn' : 'border-transparent',
                )}
                style={{ transform: `translateY(${start}px)` }}
              >
                {at != null && (
                  <time dateTime={at} className="shrink-0 text-soft max-sm:hidden">
                    {CLOCK.format(Date.parse(at))}
                  </time>
                )}
                {level !== undefined && (
                  <span className={classes('w-16 shrink-0', COLOURS[level] ?? 'text-soft')}>{level.toLowerCase()}</span>
                )}
                {source !== undefined && (
                  <span className={classes('w-16 shrink-0', source === 'platform' ? 'font-bold' : 'text-soft')}>
                    {source}
                  </span>
                )}
                <span className="min-h-[18px] min-w-0 grow [unicode-bidi:plaintext] whitespace-pre-wrap">
                  <AnsiText text={cutLine(text)} />
                </span>
              </div>
            );
          })}
        </div>
      </div>
      {!isFollowing && isCut && (
        <div className="absolute right-4 bottom-3">
          <Button icon={ArrowDown} onPress={() => setFollowing(true)}>
            Jump to end
          </Button>
        </div>
      )}
    </div>
  );
}
