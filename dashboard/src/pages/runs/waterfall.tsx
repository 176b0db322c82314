// biome-ignore-all lint/a11y/useSemanticElements: rows of a virtual grid are placed, which those of a table cannot be.
// biome-ignore-all lint/a11y/useFocusableInteractive: the grid has the focus, and names its active row.
// biome-ignore-all lint/a11y/useKeyWithClickEvents: the grid has the keys.
import { useVirtualizer } from '@tanstack/react-virtual';
import { ChevronDown, ChevronRight } from 'lucide-react';
import { memo, type PointerEvent, useEffect, useRef, useState } from 'react';
import { classes } from '../../ui/classes.ts';
import { count, shortCount, usd } from '../../ui/data/numbers.tsx';
import { duration } from '../../ui/data/time.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { isBad, isOpen, type Line, ticksOf, type Window } from './lines.ts';

const LINE_HEIGHT = 28;
const TICKS = 5;
/** Minimum length of a drag on the axis that selects a window. */
const SHORTEST_DRAG_PX = 6;
/** Column widths. */
const NAME_WIDTH = 'w-2/5 min-w-0 shrink-0';
const SPENT_WIDTH = 'w-18 shrink-0 text-right whitespace-nowrap text-soft @max-2xl:hidden';
const TOOK_WIDTH = 'w-16 shrink-0 text-right whitespace-nowrap';

interface WaterfallProps {
  readonly lines: readonly Line[];
  /** Start of the axis in epoch milliseconds. */
  readonly start: number;
  /** Visible part of the axis. */
  readonly window: Window;
  readonly onWindow: (window: Window) => void;
  readonly selected: string;
  readonly onSelect: (id: string) => void;
  readonly folded: ReadonlySet<string>;
  readonly onFold: (id: string, isFolded: boolean) => void;
  /** Ids of highlighted lines. */
  readonly marked: ReadonlySet<string>;
  /** `bars` on the time axis, or a `table` of values. */
  readonly view: 'bars' | 'table';
}

/** Maps navigation keys to the target row. */
const TARGETS = new Map<string, (at: number, count: number) => number>([
  ['ArrowDown', (at) => at + 1],
  ['ArrowRight', (at) => at + 1],
  ['ArrowUp', (at) => at - 1],
  ['PageDown', (at) => at + 10],
  ['PageUp', (at) => at - 10],
  ['Home', () => 0],
  ['End', (_, count) => count],
]);

/** Virtualised waterfall of the lines of a chain. */
export function Waterfall({
  lines,
  start,
  window,
  onWindow,
  selected,
  onSelect,
  folded,
  onFold,
  marked,
  view,
}: WaterfallProps) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 12,
  });
  const at = Math.max(
    0,
    lines.findIndex(({ id }) => id === selected),
  );
  // A line selected by the URL may be far below.
  // biome-ignore lint/correctness/useExhaustiveDependencies: not when somebody selects another line.
  useEffect(() => rows.scrollToIndex(at), []);
  const move = (to: number) => {
    const next = Math.min(lines.length - 1, Math.max(0, to));
    rows.scrollToIndex(next);
    onSelect(lines[next]!.id);
  };
  const line = lines[at]!;
  /** Handles a key of the grid. Returns whether it did. */
  const press = (key: string): boolean => {
    const isFolded = folded.has(line.id);
    if (key === 'ArrowRight' && isFolded) onFold(line.id, false);
    else if (key === 'ArrowLeft' && line.isParent && !isFolded) onFold(line.id, true);
    else if (key === 'ArrowLeft') move(lines.findLastIndex(({ depth }, index) => index < at && depth < line.depth));
    else {
      const to = TARGETS.get(key);
      if (to === undefined) return false;
      move(to(at, lines.length));
    }
    return true;
  };
  return (
    <div
      ref={box}
      className="@container max-h-[70dvh] min-w-0 self-start overflow-auto rounded-lg border border-line bg-raised"
    >
      <div className={view === 'table' ? 'min-w-160' : undefined}>
        {view === 'bars' ? <Axis window={window} onWindow={onWindow} /> : <Titles />}
        <div
          role="treegrid"
          aria-label="Steps over time"
          aria-rowcount={lines.length}
          aria-activedescendant={`line-${line.id}`}
          tabIndex={0}
          onKeyDown={(event) => {
            if (event.altKey || event.ctrlKey || event.metaKey) return;
            if (press(event.key)) event.preventDefault();
          }}
          onClick={(event) => {
            const target = event.target as HTMLElement;
            const id = target.closest<HTMLElement>('[data-line]')?.dataset.line;
            if (id === undefined) return;
            if (target.closest('[data-fold]')) onFold(id, !folded.has(id));
            else onSelect(id);
          }}
          className="focus-visible:-outline-offset-2"
        >
          <div role="rowgroup" style={{ height: rows.getTotalSize(), position: 'relative' }}>
            {rows.getVirtualItems().map(({ index, start: top }) => {
              const each = lines[index]!;
              return (
                <Row
                  key={`${index} ${each.id}`}
                  line={each}
                  index={index}
                  top={top}
                  start={start}
                  from={window.from}
                  to={window.to}
                  isSelected={index === at}
                  isFolded={folded.has(each.id)}
                  isMarked={marked.has(each.id)}
                  isTable={view === 'table'}
                />
              );
            })}
          </div>
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  readonly line: Line;
  readonly index: number;
  readonly top: number;
  readonly start: number;
  readonly from: number;
  readonly to: number;
  readonly isSelected: boolean;
  readonly isFolded: boolean;
  readonly isMarked: boolean;
  readonly isTable: boolean;
}

/** Memoised, so that scrolling only renders rows that become visible. */
const Row = memo(function Row({
  line,
  index,
  top,
  start,
  from,
  to,
  isSelected,
  isFolded,
  isMarked,
  isTable,
}: RowProps) {
  const { id, depth, step, isParent } = line;
  const took = Math.max(0, line.to - line.from);
  const Fold = isFolded ? ChevronRight : ChevronDown;
  return (
    <div
      id={`line-${id}`}
      data-line={id}
      role="row"
      aria-level={depth + 1}
      aria-rowindex={index + 1}
      aria-selected={isSelected}
      aria-expanded={isParent ? !isFolded : undefined}
      className={classes(
        'absolute inset-x-0 flex cursor-default items-center gap-2 border-b border-line px-2 text-xs',
        isSelected ? 'bg-selected' : 'hover:bg-hover',
        isBad(line) && 'border-l-2 border-l-bad',
        step?.kind === 'interrupted' && 'border-l-2 border-l-warn',
      )}
      style={{ height: LINE_HEIGHT, transform: `translateY(${top}px)` }}
    >
      <div
        role="gridcell"
        className={classes(NAME_WIDTH, 'flex items-center', !step && 'font-medium')}
        style={{ paddingLeft: Math.min(depth, 12) * 12 }}
      >
        <span data-fold={isParent ? '' : undefined} aria-hidden className="mr-0.5 w-3.5 shrink-0">
          {isParent && <Fold size={13} />}
        </span>
        <span className="truncate" title={step?.kind === 'interrupted' ? line.name : undefined}>
          {escapeText(line.name)}
          {(isBad(line) || isOpen(line) || line.wait) && ` (${statusWord(line)})`}
        </span>
      </div>
      {isTable ? (
        <Figures line={line} start={start} />
      ) : (
        <div role="gridcell" className="relative h-3 grow overflow-hidden">
          <span className="sr-only">
            {`from ${duration(Math.max(0, line.from - start))}${isMarked ? ', on the critical path' : ''}`}
          </span>
          <Bar line={line} from={line.from - start - from} took={took} whole={to - from} isMarked={isMarked} />
        </div>
      )}
      {!isTable && <Spent line={line} />}
      <div role="gridcell" className={classes(TOOK_WIDTH, 'text-soft')}>
        {duration(took)}
      </div>
    </div>
  );
});

/** A call that a person refused is `denied` in the API. */
const statusWord = ({ status }: Line): string => (status === 'denied' ? 'refused' : status);

const tokensOf = ({ step, run }: Line): number =>
  step ? (step.token_input ?? 0) + (step.token_output ?? 0) : (run.input_tokens ?? 0) + (run.output_tokens ?? 0);
const costOf = ({ step, run }: Line) => (step ? step.cost_usd : run.cost_usd);

/** Tokens and cost of a line, beside its bar. */
function Spent({ line }: { readonly line: Line }) {
  const tokens = tokensOf(line);
  const cost = costOf(line);
  return (
    <>
      <div role="gridcell" className={SPENT_WIDTH}>
        {tokens > 0 && (
          <>
            <span className="sr-only">Tokens: </span>
            {shortCount(tokens)}
          </>
        )}
      </div>
      <div role="gridcell" className={SPENT_WIDTH}>
        {cost != null && (
          <>
            <span className="sr-only">Cost: </span>
            {usd(cost)}
          </>
        )}
      </div>
    </>
  );
}

function Bar({
  line,
  from,
  took,
  whole,
  isMarked,
}: {
  readonly line: Line;
  readonly from: number;
  readonly took: number;
  readonly whole: number;
  readonly isMarked: boolean;
}) {
  // Clips bars to the visible window, because browsers limit the width of a box and a window of milliseconds can make
  // bars of hours.
  const left = Math.max(-1, (from / whole) * 100);
  const right = Math.min(101, ((from + took) / whole) * 100);
  if (right < 0 || left > 100) return null;
  const { kind } = line.step ?? {};
  const isMark = kind === 'interrupted';
  const colour = line.wait
    ? 'bg-[repeating-linear-gradient(135deg,var(--edge)_0_4px,transparent_4px_7px)] border border-edge'
    : isBad(line)
      ? 'bg-bad'
      : kind === 'queue' || isMark
        ? 'bg-warn'
        : line.step
          ? 'bg-accent'
          : 'bg-edge';
  return (
    <span
      aria-hidden
      className={classes(
        'absolute h-3 rounded-sm',
        isMark ? 'min-w-1' : 'min-w-0.5',
        colour,
        isMarked && 'border-y-2 border-text',
      )}
      style={{ left: `${Math.min(left, 99.5)}%`, width: `${right - left}%` }}
    />
  );
}

const FIGURES = ['Status', 'Started', 'Model', 'Tokens', 'Cost'] as const;
const FIGURE_WIDTH = 'min-w-0 flex-1 truncate';

const Titles = () => (
  <div
    aria-hidden
    className="sticky top-0 z-10 flex h-7 items-center gap-2 border-b border-line bg-panel px-2 text-xs text-soft"
  >
    <span className={NAME_WIDTH}>Step</span>
    {FIGURES.map((title) => (
      <span key={title} className={FIGURE_WIDTH}>
        {title}
      </span>
    ))}
    <span className={TOOK_WIDTH}>Duration</span>
  </div>
);

function Figures({ line, start }: { readonly line: Line; readonly start: number }) {
  const { step, run, from } = line;
  const tokens = tokensOf(line);
  const cost = costOf(line);
  const texts = [
    statusWord(line),
    `+${duration(Math.max(0, from - start))}`,
    escapeText((step ? step.model : run.llm_model) ?? ''),
    tokens === 0 ? '' : count(tokens),
    cost == null ? '' : usd(cost),
  ];
  return texts.map((text, index) => (
    <div key={FIGURES[index]} role="gridcell" className={FIGURE_WIDTH}>
      <span className="sr-only">{FIGURES[index]}: </span>
      {text}
    </div>
  ));
}

/** Time axis. Dragging over it selects the window; the buttons above the waterfall offer the same by keyboard. */
function Axis({ window, onWindow }: Pick<WaterfallProps, 'window' | 'onWindow'>) {
  const [drag, setDrag] = useState<readonly [from: number, to: number]>();
  const { from, to } = window;
  const placeOf = ({ clientX, currentTarget }: PointerEvent<HTMLElement>): number => {
    const { left, width } = currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, (clientX - left) / width));
  };
  const end = ({ currentTarget }: PointerEvent<HTMLElement>) => {
    setDrag(undefined);
    if (drag === undefined) return;
    const [a, b] = drag.toSorted((x, y) => x - y) as [number, number];
    if ((b - a) * currentTarget.clientWidth < SHORTEST_DRAG_PX) return;
    onWindow({ from: from + a * (to - from), to: from + b * (to - from) });
  };
  return (
    <div
      aria-hidden
      className="sticky top-0 z-10 flex h-7 items-center gap-2 border-b border-line bg-panel px-2 text-xs text-soft"
    >
      <span className={NAME_WIDTH}>Step</span>
      <div
        data-axis
        title="Drag to zoom"
        className="relative h-full grow touch-none cursor-col-resize overflow-hidden select-none"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          const place = placeOf(event);
          setDrag([place, place]);
        }}
        onPointerMove={(event) => drag && setDrag([drag[0], placeOf(event)])}
        onPointerUp={end}
        onPointerCancel={() => setDrag(undefined)}
      >
        {ticksOf(window, TICKS).map((tick) => (
          <span
            key={tick}
            className="absolute inset-y-0 border-l border-line pt-1.5 pl-1 whitespace-nowrap @max-sm:not-first:hidden @max-md:even:hidden @2xl:@max-4xl:even:hidden"
            style={{ left: `${((tick - from) / (to - from)) * 100}%` }}
          >
            {duration(tick)}
          </span>
        ))}
        {drag && (
          <span
            className="absolute inset-y-0 bg-accent opacity-30"
            style={{ left: `${Math.min(...drag) * 100}%`, width: `${Math.abs(drag[1] - drag[0]) * 100}%` }}
          />
        )}
      </div>
      <span className={SPENT_WIDTH}>Tokens</span>
      <span className={SPENT_WIDTH}>Cost</span>
      <span className={TOOK_WIDTH}>Duration</span>
    </div>
  );
}
