import { useNavigate, useSearch } from '@tanstack/react-router';
import { Maximize2, Table2, ZoomIn, ZoomOut } from 'lucide-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { Button, IconButton } from '../../ui/button.tsx';
import { count } from '../../ui/data/numbers.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox, Select } from '../../ui/field.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Loading } from '../../ui/loading.tsx';
import { Split } from '../../ui/split.tsx';
import {
  criticalPath,
  isBad,
  isOpen,
  type Line,
  linesOf,
  unfolded,
  type Window,
  windowOf,
  windowText,
  withParents,
  zoomed,
} from './lines.ts';
import type { RunParams } from './run-params.ts';
import { SpanDetails } from './span-details.tsx';
import { useWaterfall } from './use-waterfall.ts';
import { Waterfall } from './waterfall.tsx';

/** Browsers reject URLs that change hundreds of times in a few seconds, for example while an arrow key is held. */
const SETTLED_MS = 150;
const NOTHING: ReadonlySet<string> = new Set();

/** Search parameters of this tab. */
interface TraceSearch {
  readonly span?: string;
  readonly only?: 'failed' | 'pending';
  /** Milliseconds since the chain started, such as `250-1000`. */
  readonly zoom?: string;
  readonly view?: 'table';
  readonly critical?: 'on';
}

/** Steps of the complete chain over time, and details of the selected one. */
export function TraceTab({ params, isRunning }: { readonly params: RunParams; readonly isRunning: boolean }) {
  const { data, error } = useWaterfall(params, isRunning);
  const lines = useMemo(() => (data ? linesOf(data.runs, data.at) : []), [data]);
  if (error && !data) return <ErrorBox error={error} />;
  if (!data) return <Loading />;
  if (lines.length === 0) return <p className="text-soft">This run has no trace.</p>;
  return <Trace lines={lines} params={params} />;
}

function Trace({ lines, params }: { readonly lines: readonly Line[]; readonly params: RunParams }) {
  const search = useSearch({ strict: false }) as TraceSearch;
  const navigate = useNavigate();
  const change = (next: TraceSearch) =>
    void navigate({ to: '.', search: (old: object) => ({ ...old, ...next }), replace: true } as never);
  const [folded, setFolded] = useState(NOTHING);
  const { start, whole } = useMemo(() => {
    const start = lines.reduce((least, { from }) => Math.min(least, from), Number.POSITIVE_INFINITY);
    return { start, whole: Math.max(1, lines.reduce((most, { to }) => Math.max(most, to), start) - start) };
  }, [lines]);
  const marked = useMemo(() => (search.critical === 'on' ? criticalPath(lines) : NOTHING), [lines, search.critical]);
  const shown = useMemo(() => {
    const matching = search.only ? withParents(lines, search.only === 'failed' ? isBad : isOpen) : lines;
    return unfolded(matching, folded);
  }, [lines, search.only, folded]);
  const window = useMemo(() => windowOf(search.zoom, whole), [search.zoom, whole]);
  const zoom = (next: Window) =>
    change({
      zoom:
        next.to - next.from >= whole ? undefined : windowText({ from: Math.floor(next.from), to: Math.ceil(next.to) }),
    });

  const own = lines.find(({ run, step }) => !step && run.run_id === params.run_id);
  const addressed = lines.find(({ id }) => id === search.span) ?? own ?? lines[0]!;
  const [selected, select] = useSettled(addressed.id, (span) => change({ span }));
  const zoomToSelected = () => {
    // Current selection; the URL follows after a delay.
    const { from, to } = lines.find(({ id }) => id === selected) ?? addressed;
    zoom(zoomed({ from: from - start, to: Math.max(from + 1, to) - start }, 1.1, whole));
  };
  const fold = (id: string, isFolded: boolean) =>
    setFolded((old) => (isFolded ? old.union(new Set([id])) : old.difference(new Set([id]))));
  useKeys({
    z: zoomToSelected,
    '+': () => zoom(zoomed(window, 0.5, whole)),
    '-': () => zoom(zoomed(window, 2, whole)),
    '0': () => change({ zoom: undefined }),
  });
  return (
    <div className="flex min-w-0 flex-col gap-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2 print:hidden">
        <div className="w-32">
          <Select
            label="Steps"
            isLabelHidden
            value={search.only ?? ''}
            onChange={(only) => change({ only: (only || undefined) as TraceSearch['only'] })}
            choices={[
              { id: '', label: 'All steps' },
              { id: 'failed', label: 'Failed' },
              { id: 'pending', label: 'In progress' },
            ]}
          />
        </div>
        <Checkbox value={search.critical === 'on'} onChange={(on) => change({ critical: on ? 'on' : undefined })}>
          Critical path
        </Checkbox>
        <Checkbox value={search.view === 'table'} onChange={(on) => change({ view: on ? 'table' : undefined })}>
          Show as table
        </Checkbox>
        <div className="flex items-center">
          <IconButton icon={ZoomIn} label="Zoom in (+)" onPress={() => zoom(zoomed(window, 0.5, whole))} />
          <IconButton
            icon={ZoomOut}
            label="Zoom out (-)"
            isDisabled={search.zoom === undefined}
            onPress={() => zoom(zoomed(window, 2, whole))}
          />
          <IconButton
            icon={Maximize2}
            label="Reset zoom (0)"
            isDisabled={search.zoom === undefined}
            onPress={() => change({ zoom: undefined })}
          />
          <Button variant="quiet" onPress={zoomToSelected}>
            Zoom to step
          </Button>
        </div>
        <span className="grow" />
        <span className="text-xs text-soft">
          {shown.length === lines.length ? count(lines.length) : `${count(shown.length)} of ${count(lines.length)}`}{' '}
          {lines.length === 1 ? 'step' : 'steps'}
        </span>
      </div>
      <Split
        left={
          shown.length === 0 ? (
            <Empty icon={Table2} title={search.only === 'failed' ? 'No step failed' : 'No step is in progress'} />
          ) : (
            <Waterfall
              lines={shown}
              start={start}
              window={window}
              onWindow={zoom}
              selected={selected}
              onSelect={select}
              folded={folded}
              onFold={fold}
              marked={marked}
              view={search.view ?? 'bars'}
            />
          )
        }
        right={<SpanDetails key={addressed.id} line={addressed} start={start} params={params} />}
      />
    </div>
  );
}

/** Holds a selection that shows immediately and is passed to `settle` after a pause. */
function useSettled(settled: string, settle: (choice: string) => void): readonly [string, (choice: string) => void] {
  const [choice, setChoice] = useState<string>();
  const latest = useRef(settle);
  latest.current = settle;
  useEffect(() => {
    if (choice === undefined) return;
    const timer = setTimeout(() => {
      latest.current(choice);
      setChoice(undefined);
    }, SETTLED_MS);
    return () => clearTimeout(timer);
  }, [choice]);
  return [choice ?? settled, setChoice];
}
