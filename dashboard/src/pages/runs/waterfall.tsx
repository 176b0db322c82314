// biome-ignore-all lint/a11y/useSemanticElements: rows of a virtual grid are placed, which those of a table cannot be.
// biome-ignore-all lint/a11y/useFocusableInteractive: the grid has the focus, and names its active row.
// biome-ignore-all lint/a11y/useKeyWithClickEvents: the grid has the keys.
import { useVirtualizer } from '@tanstack/react-virtual';
import { useMemo, useRef } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { classes } from '../../ui/classes.ts';
import { duration } from '../../ui/time.tsx';
import { harmless } from '../../ui/viewer.tsx';

export type WaterfallRun = AnswerOf<'getRunWaterfall'>['runs'][number];
type Step = WaterfallRun['steps'][number];

/** A run, or a step of one, in the tree of a chain. */
export interface Line {
  /** Its span, or for what takes no time, its place. */
  readonly id: string;
  readonly depth: number;
  readonly run: WaterfallRun;
  readonly step?: Step;
  readonly name: string;
  readonly status: string;
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
}

/** All lines of a chain, each below the one that it is a part of, in the order in which they began. `now`: where what runs ends so far. */
export function linesOf(runs: readonly WaterfallRun[], now: number): Line[] {
  const below = new Map<string, Omit<Line, 'depth'>[]>();
  const roots: Omit<Line, 'depth'>[] = [];
  const spans = new Set(runs.flatMap((run) => [run.span_id, ...run.steps.map(({ span_id }) => span_id)]));
  const put = (parent: string | null, line: Omit<Line, 'depth'>) => {
    const list = parent !== null && spans.has(parent) && parent !== line.id ? below.get(parent) : roots;
    if (list) list.push(line);
    else below.set(parent!, [line]);
  };
  for (const run of runs) {
    put(run.parent_span_id, {
      id: run.span_id,
      run,
      name: `${run.agent_name}@${run.agent_version}`,
      status: run.status,
      from: Date.parse(run.started_at),
      to: run.completed_at === null ? now : Date.parse(run.completed_at),
    });
    for (const [index, step] of run.steps.entries()) {
      const about = step.payload.tool_name ?? step.payload.name ?? step.model;
      put(step.parent_span_id, {
        id: step.span_id ?? `${run.span_id}-${index}`,
        run,
        step,
        name: `${step.kind.replaceAll('_', ' ')}${about === undefined ? '' : ` ${harmless(String(about))}`}`,
        status: step.status,
        from: Date.parse(step.started_at),
        to: step.ended_at === null ? now : Date.parse(step.ended_at),
      });
    }
  }
  const lines: Line[] = [];
  // No recursion: a chain may be as deep as it likes.
  const open = roots
    .sort(byStart)
    .reverse()
    .map((line) => ({ ...line, depth: 0 }));
  while (open.length > 0) {
    const line = open.pop()!;
    lines.push(line);
    const children = (below.get(line.id) ?? []).sort(byStart).reverse();
    below.delete(line.id);
    open.push(...children.map((child) => ({ ...child, depth: line.depth + 1 })));
  }
  return lines;
}

const byStart = (a: { readonly from: number }, b: { readonly from: number }) => a.from - b.from;
const LINE_HEIGHT = 28;
const isBad = (status: string) => status === 'failed' || status === 'timeout';

/** The lines over time. Only those in sight are in the page. */
export function Waterfall({
  lines,
  selected,
  onSelect,
}: {
  readonly lines: readonly Line[];
  readonly selected: string;
  readonly onSelect: (id: string) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 12,
  });
  const { start, whole } = useMemo(() => {
    const start = lines.reduce((least, { from }) => Math.min(least, from), Number.POSITIVE_INFINITY);
    return { start, whole: Math.max(1, lines.reduce((most, { to }) => Math.max(most, to), start) - start) };
  }, [lines]);
  const at = Math.max(
    0,
    lines.findIndex(({ id }) => id === selected),
  );
  const move = (by: number) => {
    const next = Math.min(lines.length - 1, Math.max(0, at + by));
    rows.scrollToIndex(next);
    onSelect(lines[next]!.id);
  };
  const keys: Readonly<Record<string, number>> = {
    ArrowDown: 1,
    ArrowUp: -1,
    PageDown: 10,
    PageUp: -10,
    Home: -lines.length,
    End: lines.length,
  };
  return (
    <div
      ref={box}
      role="treegrid"
      aria-label="Steps over time"
      aria-rowcount={lines.length}
      aria-activedescendant={`line-${lines[at]?.id}`}
      tabIndex={0}
      onKeyDown={(event) => {
        const by = keys[event.key];
        if (by === undefined) return;
        event.preventDefault();
        move(by);
      }}
      className="max-h-[32rem] overflow-y-auto self-start rounded-lg border border-line bg-raised"
    >
      <div role="rowgroup" style={{ height: rows.getTotalSize(), position: 'relative' }}>
        {rows.getVirtualItems().map(({ index, start: top }) => {
          const line = lines[index]!;
          const took = Math.max(0, line.to - line.from);
          return (
            <div
              key={`${index} ${line.id}`}
              id={`line-${line.id}`}
              role="row"
              aria-level={line.depth + 1}
              aria-rowindex={index + 1}
              aria-selected={line.id === selected}
              onClick={() => onSelect(line.id)}
              className={classes(
                'absolute inset-x-0 flex cursor-default items-center gap-2 border-b border-line px-2 text-xs',
                line.id === selected ? 'bg-hover' : 'hover:bg-hover',
                isBad(line.status) && 'border-l-2 border-l-bad',
              )}
              style={{ height: LINE_HEIGHT, transform: `translateY(${top}px)` }}
            >
              <div
                role="gridcell"
                className={classes('w-2/5 min-w-0 truncate', !line.step && 'font-medium')}
                style={{ paddingLeft: Math.min(line.depth, 12) * 12 }}
              >
                {line.name}
                {(isBad(line.status) || line.status === 'running') && ` (${line.status})`}
              </div>
              <div role="gridcell" className="relative h-3 grow">
                <span className="sr-only">{`from ${duration(Math.max(0, line.from - start))}`}</span>
                <span
                  aria-hidden
                  className={classes(
                    'absolute h-3 min-w-0.5 rounded-sm',
                    isBad(line.status) ? 'bg-bad' : line.step?.kind === 'queue' ? 'bg-warn' : 'bg-accent',
                  )}
                  style={{ left: `${((line.from - start) / whole) * 99}%`, width: `${(took / whole) * 99}%` }}
                />
              </div>
              <div role="gridcell" className="w-16 shrink-0 text-right whitespace-nowrap text-soft">
                {duration(took)}
              </div>
            </div>
          );
        })}
      </div>
    </div>
  );
}
