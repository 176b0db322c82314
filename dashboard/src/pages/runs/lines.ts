import { interruptedText } from '#core/base/attempt-text.ts';
import type { AnswerOf } from '../../api/client.ts';
import { isFailure } from '../../api/run-status.ts';
import { isWaitEnd, type Wait, waitsOf } from './waits.ts';

export type WaterfallRun = AnswerOf<'getRunWaterfall'>['runs'][number];
type Step = WaterfallRun['steps'][number];

/** A run or a step in the tree of a chain. */
export interface Line {
  /** Span id; for instantaneous events, the index. */
  readonly id: string;
  readonly depth: number;
  readonly run: WaterfallRun;
  readonly step?: Step;
  /** For a stretch in which a call of a tool waited. */
  readonly wait?: Wait;
  /** Name chosen by the author; escape it for display. */
  readonly name: string;
  readonly status: string;
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  /** Whether the line has children. */
  readonly isParent: boolean;
}
type LooseLine = Omit<Line, 'depth' | 'isParent'>;

/** Names of the platform's own steps. */
const NAMES: Readonly<Record<string, string>> = {
  'setup_step install': 'install dependencies',
  'setup_step start': 'start sandbox',
  'setup_step files': 'copy files',
  'queue undefined': 'wait in queue',
};

/** Names a step by its kind and what it is about: a tool, a model, a called agent, or why a new attempt began. */
export function stepName({ kind, payload, model }: Pick<Step, 'kind' | 'payload' | 'model'>): string {
  if (kind === 'interrupted') return interruptedText(payload);
  const about = payload.tool_name ?? payload.name ?? payload.agent_name ?? model;
  return (
    NAMES[`${kind} ${String(about)}`] ?? `${kind.replaceAll('_', ' ')}${about === undefined ? '' : ` ${String(about)}`}`
  );
}

/** Lists all lines of a chain depth-first, in order of their start. `now` is the current end of running lines. */
export function linesOf(runs: readonly WaterfallRun[], now: number): Line[] {
  const below = new Map<string, LooseLine[]>();
  const roots: LooseLine[] = [];
  const spans = new Set(runs.flatMap((run) => [run.span_id, ...run.steps.map(({ span_id }) => span_id)]));
  const put = (parent: string | null, line: LooseLine) => {
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
    const waits = waitsOf(run.steps);
    for (const [index, step] of run.steps.entries()) {
      // A wait is one line, from its request to its decision.
      const wait = waits.get(String(step.payload.approval_id));
      if (wait !== undefined && isWaitEnd(step)) continue;
      const end = wait === undefined ? step.ended_at : (wait.end ?? run.completed_at);
      put(step.parent_span_id, {
        id: step.span_id ?? `${run.span_id}-${index}`,
        run,
        step,
        ...(wait && { wait }),
        name: wait?.name ?? stepName(step),
        status: wait === undefined ? step.status : waitStatus(wait, run),
        from: Date.parse(step.started_at),
        to: end === null ? now : Date.parse(end),
      });
    }
  }
  const lines: Line[] = [];
  // Iterative, because chains can be arbitrarily deep.
  const open = roots
    .sort(byStart)
    .reverse()
    .map((line) => ({ line, depth: 0 }));
  while (open.length > 0) {
    const { line, depth } = open.pop()!;
    const children = (below.get(line.id) ?? []).sort(byStart).reverse();
    below.delete(line.id);
    lines.push({ ...line, depth, isParent: children.length > 0 });
    for (const child of children) open.push({ line: child, depth: depth + 1 });
  }
  return lines;
}

/** An undecided call ends with its run. */
const waitStatus = ({ status }: Wait, { completed_at }: WaterfallRun): string =>
  status === 'waiting' && completed_at !== null ? 'cancelled' : status;

const byStart = (a: LooseLine, b: LooseLine) => a.from - b.from;

/** Whether a line failed or timed out. */
export const isBad = ({ status }: Line): boolean => isFailure(status);
export const isOpen = ({ status }: Line): boolean => status === 'running' || status === 'waiting';

/** Returns the matching lines and their ancestors. */
export function withParents(lines: readonly Line[], matches: (line: Line) => boolean): Line[] {
  const kept: Line[] = [];
  /** Depth of the next ancestor; iterates backwards, because lines follow their parents. */
  let wanted = -1;
  for (const line of lines.toReversed()) {
    if (line.depth !== wanted && !matches(line)) continue;
    kept.push(line);
    wanted = line.depth - 1;
  }
  return kept.reverse();
}

/** Returns the lines without the descendants of folded ones. */
export function unfolded(lines: readonly Line[], folded: ReadonlySet<string>): readonly Line[] {
  if (folded.size === 0) return lines;
  let hiddenBelow = Number.POSITIVE_INFINITY;
  return lines.filter((line) => {
    if (line.depth > hiddenBelow) return false;
    hiddenBelow = folded.has(line.id) ? line.depth : Number.POSITIVE_INFINITY;
    return true;
  });
}

/**
 * Returns the ids of the lines on the critical path of the first line: from its end backwards, the child that ended
 * last, then the child that ended last before that one started, and so on, recursively.
 */
export function criticalPath(lines: readonly Line[]): ReadonlySet<string> {
  const [first] = lines;
  if (first === undefined) return new Set();
  const children = new Map<Line, Line[]>();
  const above: Line[] = [];
  for (const line of lines) {
    above.length = line.depth;
    const parent = above.at(-1);
    const siblings = parent && children.get(parent);
    if (siblings) siblings.push(line);
    else if (parent) children.set(parent, [line]);
    above.push(line);
  }
  const path = new Set<string>();
  const open = [first];
  for (let line = open.pop(); line !== undefined; line = open.pop()) {
    path.add(line.id);
    let at = line.to;
    for (const child of (children.get(line) ?? []).sort((a, b) => b.to - a.to)) {
      if (child.to > at || child.to === child.from) continue;
      open.push(child);
      at = child.from;
    }
  }
  return path;
}

/** A section of the time axis, in milliseconds since its start. */
export interface Window {
  readonly from: number;
  readonly to: number;
}

/** Formats a window for the URL, such as "250-1000". */
export const windowText = ({ from, to }: Window): string => `${Math.round(from)}-${Math.round(to)}`;

/** Parses a window from the URL, clipped to the total duration; returns the full range without one. */
export function windowOf(text: string | undefined, whole: number): Window {
  const [, from, to] = /^(\d{1,15})-(\d{1,15})$/.exec(text ?? '') ?? [];
  if (from === undefined || Number(from) >= Math.min(Number(to), whole)) return { from: 0, to: whole };
  return { from: Number(from), to: Math.min(Number(to), whole) };
}

/** Returns the window with the same centre, scaled by `factor`. */
export function zoomed({ from, to }: Window, factor: number, whole: number): Window {
  const length = Math.min(whole, Math.max(1, (to - from) * factor));
  const start = Math.min(whole - length, Math.max(0, (from + to - length) / 2));
  return { from: start, to: start + length };
}

/** Returns about `max` round values of a window for the ticks of the axis. */
export function ticksOf({ from, to }: Window, max: number): number[] {
  const rough = (to - from) / Math.max(1, max);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough)! * power;
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, index) => first + index * step);
}
