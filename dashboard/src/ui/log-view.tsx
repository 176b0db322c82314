import { useVirtualizer } from '@tanstack/react-virtual';
import { ArrowDown } from 'lucide-react';
import { useLayoutEffect, useRef, useState } from 'react';
import { AnsiText } from './ansi-text.tsx';
import { Button } from './button.tsx';
import { classes } from './classes.ts';
import { cutLine } from './viewer.tsx';

export interface LogLine {
  readonly key: string | number;
  /** ISO 8601. */
  readonly at?: string | null;
  /** Such as `WARNING`. */
  readonly level?: string;
  readonly text: string;
}

const LINE_HEIGHT = 20;
/** So near to the end, what comes is followed. */
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

/** Lines of an untrusted log, with their colours. Only those in sight are in the page. The end is followed until somebody scrolls up. */
export function LogView({ label, lines }: { readonly label: string; readonly lines: readonly LogLine[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    getItemKey: (index) => lines[index]!.key,
    overscan: 20,
  });
  const last = lines.at(-1)?.key;
  const end = () => rows.scrollToIndex(lines.length - 1, { align: 'end' });
  // biome-ignore lint/correctness/useExhaustiveDependencies: when there are other lines, or following begins.
  useLayoutEffect(() => {
    if (isFollowing && last !== undefined) end();
  }, [last, lines.length, isFollowing]);
  const lookWhere = () => {
    const { scrollHeight, scrollTop, clientHeight } = box.current!;
    setFollowing(scrollHeight - scrollTop - clientHeight < END_PX);
  };
  return (
    <div className="relative min-w-0">
      <div
        ref={box}
        role="log"
        aria-live="off"
        aria-label={label}
        // A scrolled area must be reachable by keyboard.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
        tabIndex={0}
        dir="ltr"
        onScroll={lookWhere}
        className="h-[min(36rem,70dvh)] overflow-y-auto rounded-lg border border-line bg-panel py-1 font-mono text-xs"
      >
        <div className="relative" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ index, key, start }) => {
            const { at, level, text } = lines[index]!;
            return (
              <div
                key={key}
                ref={rows.measureElement}
                data-index={index}
                className="absolute inset-x-0 flex gap-2 px-3 py-px leading-[18px] hover:bg-hover"
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
                <span className="min-w-0 grow [unicode-bidi:plaintext] whitespace-pre-wrap">
                  <AnsiText text={cutLine(text)} />
                </span>
              </div>
            );
          })}
        </div>
      </div>
      {!isFollowing && (
        <div className="absolute right-4 bottom-3">
          <Button icon={ArrowDown} onPress={() => setFollowing(true)}>
            To the end
          </Button>
        </div>
      )}
    </div>
  );
}
