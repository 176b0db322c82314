import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useWorkspace } from '../../api/session.ts';
import { classes } from '../../ui/classes.ts';
import { Checkbox } from '../../ui/field.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Link } from '../../ui/link.tsx';
import { Status } from '../../ui/status.tsx';
import { Duration, Time } from '../../ui/time.tsx';
import { harmless } from '../../ui/viewer.tsx';

export type RunRow = AnswerOf<'listRuns'>['runs'][number];

const ROW_HEIGHT = 37;

const COLUMNS: readonly {
  readonly title: string;
  readonly className?: string;
  readonly cell: (run: RunRow) => ReactNode;
}[] = [
  { title: 'Status', cell: ({ status }) => <Status value={status} /> },
  { title: 'Agent', cell: (run) => `${run.agent_name}@${run.agent_version}` },
  { title: 'Source', className: 'max-md:hidden', cell: ({ trigger_source }) => trigger_source },
  {
    title: 'Error',
    className: 'w-1/3 max-w-0 max-lg:hidden',
    cell: ({ error_message }) => (
      <span className="block truncate text-soft">{harmless((error_message ?? '').slice(0, 200))}</span>
    ),
  },
  { title: 'Started', className: 'max-sm:hidden', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Took', className: 'text-right max-sm:hidden', cell: ({ duration_ms }) => <Duration ms={duration_ms} /> },
];

interface RunTableProps {
  readonly runs: readonly RunRow[];
  readonly chosen: ReadonlySet<string>;
  readonly onChoose: (chosen: ReadonlySet<string>) => void;
  /** Called when the end of the list comes into sight. */
  readonly onEnd: () => void;
}

/** Runs, newest first. However many there are, those in sight are in the page. The key `x` selects the row that has the focus. */
export function RunTable({ runs, chosen, onChoose, onEnd }: RunTableProps) {
  const { slug: workspace } = useWorkspace();
  const box = useRef<HTMLTableSectionElement>(null);
  const [offset, setOffset] = useState(0);
  // What stands above the table grows and shrinks.
  useLayoutEffect(() => {
    const top = (box.current?.getBoundingClientRect().top ?? 0) + window.scrollY;
    if (Math.abs(top - offset) > 1) setOffset(top);
  });
  const rows = useWindowVirtualizer({
    count: runs.length,
    estimateSize: () => ROW_HEIGHT,
    overscan: 15,
    scrollMargin: offset,
    getItemKey: (index) => runs[index]!.id,
  });
  const items = rows.getVirtualItems();
  const [first, last] = [items[0], items.at(-1)];
  const lastShown = last?.index ?? -1;
  useEffect(() => {
    if (lastShown >= runs.length - 1) onEnd();
  }, [lastShown, runs.length, onEnd]);
  const toggle = (id: string) => onChoose(chosen.symmetricDifference(new Set([id])));
  useKeys({
    x: () => {
      const id = document.activeElement?.closest<HTMLElement>('[data-run]')?.dataset.run;
      if (id !== undefined) toggle(id);
    },
  });
  const isAll = runs.length > 0 && runs.every(({ id }) => chosen.has(id));
  const above = first === undefined ? 0 : first.start - offset;
  const below = last === undefined ? 0 : rows.getTotalSize() - (last.end - offset);
  return (
    <div className="overflow-x-auto rounded-lg border border-line bg-raised">
      <table className="w-full border-collapse text-left" aria-rowcount={runs.length + 1}>
        <caption className="sr-only">Runs</caption>
        <thead>
          <tr aria-rowindex={1} className="border-b border-line bg-panel text-xs text-soft">
            <th scope="col" className="w-px py-1.5 pl-3">
              <Checkbox value={isAll} onChange={(on) => onChoose(new Set(on ? runs.map(({ id }) => id) : []))}>
                <span className="sr-only">Select all that are listed</span>
              </Checkbox>
            </th>
            <th scope="col" className="px-3 py-1.5 font-medium">
              Run
            </th>
            {COLUMNS.map(({ title, className }) => (
              <th key={title} scope="col" className={classes('px-3 py-1.5 font-medium whitespace-nowrap', className)}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={box}>
          {above > 0 && <Gap height={above} />}
          {items.map(({ index, key }) => {
            const run = runs[index]!;
            return (
              <tr
                key={key as string}
                ref={rows.measureElement}
                data-index={index}
                data-row
                data-run={run.id}
                aria-rowindex={index + 2}
                className={classes(
                  'relative border-b border-line last:border-0 focus-within:bg-hover hover:bg-hover',
                  chosen.has(run.id) && 'bg-selected',
                )}
              >
                <td className="relative z-10 w-px py-2 pl-3">
                  <Checkbox value={chosen.has(run.id)} onChange={() => toggle(run.id)}>
                    <span className="sr-only">Select run {run.id.slice(0, 8)}</span>
                  </Checkbox>
                </td>
                <td className="px-3 py-2">
                  <Link
                    to="/$workspace/runs/$run"
                    params={{ workspace, run: run.id }}
                    className="font-mono font-medium outline-none after:absolute after:inset-0 focus-visible:after:outline-2 focus-visible:after:-outline-offset-2 focus-visible:after:outline-accent"
                  >
                    {run.id.slice(0, 8)}
                  </Link>
                </td>
                {COLUMNS.map(({ title, className, cell }) => (
                  <td key={title} className={classes('px-3 py-2 align-middle', className)}>
                    {cell(run)}
                  </td>
                ))}
              </tr>
            );
          })}
          {below > 0 && <Gap height={below} />}
        </tbody>
      </table>
    </div>
  );
}

/** Room of the rows that are out of sight. */
const Gap = ({ height }: { readonly height: number }) => (
  <tr aria-hidden>
    <td colSpan={COLUMNS.length + 2} style={{ height, padding: 0 }} />
  </tr>
);
