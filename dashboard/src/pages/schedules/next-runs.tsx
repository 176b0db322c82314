import { useDeferredValue } from 'react';
import { useOperation } from '../../api/query.ts';
import { Badge } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';

const LOCAL = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

const CLOCKS = {
  skipped: 'Skipped: clocks change',
  repeated: 'Occurs twice: the first one runs',
  changed: 'Clocks changed',
};

/** Next runs of an expression in its time zone and the browser's, with the effects of clock changes. */
export function NextRuns({
  cron,
  timezone,
  endsAt,
  maxRuns,
  count = 10,
}: {
  readonly cron: string;
  readonly timezone: string;
  /** End of the schedule, if it has one. */
  readonly endsAt?: string | undefined;
  /** Number of runs that are left, if they are limited. */
  readonly maxRuns?: number | undefined;
  readonly count?: number;
}) {
  const settings = { cron, timezone, ...(endsAt && { ends_at: endsAt }), ...(maxRuns && { max_runs: maxRuns }), count };
  const body = JSON.parse(useDeferredValue(JSON.stringify(settings))) as typeof settings;
  const { data, error } = useOperation(
    'previewSchedule',
    { body },
    { placeholderData: (before) => before, refetchInterval: 60_000 },
  );
  if (error) return <ErrorBox error={error} />;
  if (!data) return <Loading />;
  const isElsewhere = data.timezone !== ZONE;
  return (
    <Table
      label="Next runs"
      rows={data.slots}
      keyOf={({ local, utc_offset }) => `${local}${utc_offset}`}
      columns={[
        {
          title: data.timezone,
          cell: ({ local, dst }) => (
            <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
              {LOCAL.format(new Date(local))}
              {dst && <Badge tone={dst === 'changed' ? 'plain' : 'warn'}>{CLOCKS[dst]}</Badge>}
            </span>
          ),
        },
        ...(isElsewhere
          ? [{ title: ZONE, cell: ({ at }: { at: string | null }) => (at ? LOCAL.format(new Date(at)) : '–') }]
          : []),
        { title: 'From now', cell: ({ at }) => <Time at={at} /> },
      ]}
    />
  );
}
