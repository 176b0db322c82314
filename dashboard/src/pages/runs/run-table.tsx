import { type ReactNode, useEffect } from 'react';
import { heldText } from '#core/base/held-text.ts';
import type { AnswerOf } from '../../api/client.ts';
import { useWorkspace } from '../../api/session.ts';
import { classes } from '../../ui/classes.ts';
import { Status } from '../../ui/data/status.tsx';
import { Duration, Time } from '../../ui/data/time.tsx';
import { Gap, useVirtualRows } from '../../ui/data/virtual-rows.tsx';
import { Checkbox } from '../../ui/field.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Link } from '../../ui/link.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';

export type RunRow = AnswerOf<'listRuns'>['runs'][number];

/** All rows have the same height, so none has to be measured. */
const ROW_HEIGHT = 37;

export type ColumnName = 'Status' | 'Error' | 'Source' | 'Started' | 'Duration';

const COLUMNS: readonly {
  readonly title: ColumnName;
  readonly className?: string;
  readonly cell: (run: RunRow) => ReactNode;
}[] = [
  { title: 'Status', className: 'w-28 sm:w-32', cell: ({ status }) => <Status value={status} /> },
  {
    title: 'Error',
    className: 'max-lg:hidden',
    cell: ({ error_message, held_by }) => (
      <span className="text-soft">
        {escapeText(held_by === null ? (error_message ?? '').slice(0, 300) : heldText(held_by))}
      </span>
    ),
  },
  { title: 'Source', className: 'w-24 max-md:hidden', cell: ({ trigger_source }) => trigger_source },
  {
    title: 'Started',
    className: 'w-32 max-sm:hidden',
    cell: ({ started_at, created_at }) => <Time at={started_at ?? created_at} />,
  },
  {
    title: 'Duration',
    className: 'w-28 text-right max-sm:hidden',
    cell: ({ duration_ms }) => <Duration ms={duration_ms} />,
  },
];
export const COLUMN_NAMES: readonly ColumnName[] = COLUMNS.map(({ title }) => title);

/** Name and version on up to two lines, so that long names fit. */
function Agent({ run: { agent_name, agent_version } }: { readonly run: RunRow }) {
  const name = `${agent_name}@${agent_version}`;
  return (
    <span
      title={name}
      className={classes('line-clamp-2 break-all', name.length > 18 ? 'text-xs leading-4' : 'font-medium')}
    >
      {agent_name}
      <span className="max-sm:hidden">@{agent_version}</span>
    </span>
  );
}

interface RunTableProps {
  readonly runs: readonly RunRow[];
  readonly chosen: ReadonlySet<string>;
  readonly onChoose: (chosen: ReadonlySet<string>) => void;
  readonly hidden: ReadonlySet<ColumnName>;
  /** Called when the end of the list becomes visible. */
  readonly onEnd: () => void;
}

/** Virtualised table of runs, newest first. The key `x` selects the focused row. */
export function RunTable({ runs, chosen, onChoose, hidden, onEnd }: RunTableProps) {
  const { slug: workspace } = useWorkspace();
  const rows = useVirtualRows({ count: runs.length, height: ROW_HEIGHT, keyOf: (index) => runs[index]!.id });
  const lastShown = rows.indexes.at(-1) ?? -1;
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
  const columns = COLUMNS.filter(({ title }) => !hidden.has(title));
  // Without the error, the name takes the remaining space.
  const agentWidth = hidden.has('Error') ? undefined : 'lg:w-60';
  const isAll = runs.length > 0 && runs.every(({ id }) => chosen.has(id));
  return (
    <div className="overflow-x-auto rounded-lg border border-line bg-raised">
      <table className="w-full table-fixed border-collapse text-left" aria-rowcount={runs.length + 1}>
        <caption className="sr-only">Runs</caption>
        <thead>
          <tr aria-rowindex={1} className="border-b border-line bg-panel text-xs text-soft">
            <th scope="col" className="w-10 py-1.5 pl-3">
              <Checkbox value={isAll} onChange={(on) => onChoose(new Set(on ? runs.map(({ id }) => id) : []))}>
                <span className="sr-only">Select all listed runs</span>
              </Checkbox>
            </th>
            <th scope="col" className={classes('px-3 py-1.5 font-medium max-sm:px-2', agentWidth)}>
              Agent
            </th>
            <th scope="col" className="w-22 px-3 py-1.5 font-medium max-sm:px-2">
              Run
            </th>
            {columns.map(({ title, className }) => (
              <th
                key={title}
                scope="col"
                className={classes('px-3 py-1.5 font-medium whitespace-nowrap max-sm:px-2', className)}
              >
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={rows.body}>
          <Gap height={rows.above} />
          {rows.indexes.map((index) => {
            const run = runs[index]!;
            return (
              <tr
                key={run.id}
                data-row
                data-run={run.id}
                aria-rowindex={index + 2}
                className={classes(
                  'relative h-[37px] border-b border-line last:border-0 focus-within:bg-hover hover:bg-hover',
                  chosen.has(run.id) && 'bg-selected',
                )}
              >
                <td className="relative z-10 pl-3">
                  <Checkbox value={chosen.has(run.id)} onChange={() => toggle(run.id)}>
                    <span className="sr-only">Select run {run.id.slice(0, 8)}</span>
                  </Checkbox>
                </td>
                <td className={classes('px-3 max-sm:px-2', agentWidth)}>
                  <Agent run={run} />
                </td>
                <td className="px-3 max-sm:px-2">
                  <Link
                    to="/$workspace/runs/$run"
                    params={{ workspace, run: run.id }}
                    className="font-mono font-medium outline-none after:absolute after:inset-0 focus-visible:after:outline-2 focus-visible:after:-outline-offset-2 focus-visible:after:outline-accent"
                  >
                    {run.id.slice(0, 8)}
                  </Link>
                </td>
                {columns.map(({ title, className, cell }) => (
                  <td key={title} className={classes('truncate px-3 align-middle max-sm:px-2', className)}>
                    {cell(run)}
                  </td>
                ))}
              </tr>
            );
          })}
          <Gap height={rows.below} />
        </tbody>
      </table>
    </div>
  );
}
