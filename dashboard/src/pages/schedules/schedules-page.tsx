import { getRouteApi } from '@tanstack/react-router';
import { CalendarClock, Play, Plus, Search } from 'lucide-react';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useLiveRefresh } from '../../live/use-live.ts';
import { Button, LinkButton } from '../../ui/button.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Empty, NoMatch } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { cronInWords } from './cron-words.ts';
import { type Schedule, stateOf } from './schedule-state.ts';
import { useWarnings, Warnings } from './warnings.tsx';
import { WeekCalendar } from './week-calendar.tsx';

const route = getRouteApi('/signed-in/$workspace/schedules');

const PAGE = 200;
const TYPES = [
  { id: '', label: 'All types' },
  { id: 'cron', label: 'Cron' },
  { id: 'webhook', label: 'Webhook' },
];
const STATES = [
  { id: '', label: 'All states' },
  { id: 'enabled', label: 'On' },
  { id: 'disabled', label: 'Off' },
  { id: 'auto_disabled', label: 'Disabled after failures' },
  { id: 'ended', label: 'Ended' },
];

/** Schedules, with those disabled after failures first, and a calendar of the week. */
export function SchedulesPage() {
  const { id: workspace_id, slug, role } = useWorkspace();
  const search = route.useSearch();
  const { q = '', type = '', state = '', page = '1', week } = search;
  const navigate = route.useNavigate();
  const change = (changes: Partial<typeof search>) =>
    void navigate({ search: (before) => ({ ...before, page: undefined, ...changes }), replace: true });
  const [isPaused, setPaused] = useState(false);
  const live = useLiveRefresh(
    ['run', 'schedule'],
    ['listSchedules', 'listUpcoming', 'listRuns', 'listScheduleEvents'],
    {
      isPaused,
    },
  );
  const offset = (Math.max(1, Math.trunc(Number(page)) || 1) - 1) * PAGE;
  const query = { limit: PAGE, offset, ...(type !== '' && { type: type as 'cron' | 'webhook' }) };
  const { data, error, refetch } = useOperation('listSchedules', { params: { workspace_id }, query });
  const isFiltered = q !== '' || type !== '' || state !== '';
  const rows = (data?.schedules ?? [])
    .filter((each) => state === '' || stateOf(each) === state)
    .filter(({ agent_name }) => agent_name.toLowerCase().includes(q.toLowerCase()))
    .sort((a, b) => Number(isStopped(b)) - Number(isStopped(a)));
  const pages = Math.ceil((data?.total ?? 0) / PAGE);
  return (
    <Page
      title="Schedules"
      description="Agents that run on a cron schedule or by webhook."
      actions={
        <>
          <LiveBadge state={live} onPause={() => setPaused(!isPaused)} />
          {role === 'owner' && (
            <LinkButton variant="primary" icon={Plus} to="/$workspace/schedules/new" params={{ workspace: slug }}>
              New schedule
            </LinkButton>
          )}
        </>
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (data.total > 0 || isFiltered) && (
        <div data-filter className="grid grid-cols-2 gap-2 sm:grid-cols-[16rem_10rem_13rem]">
          <div className="max-sm:col-span-2">
            <TextField
              label="Agent"
              isLabelHidden
              placeholder="Filter by agent"
              icon={<Search size={14} aria-hidden />}
              value={q}
              onChange={(q) => change({ q })}
            />
          </div>
          <Select label="Type" isLabelHidden choices={TYPES} value={type} onChange={(type) => change({ type })} />
          <Select label="State" isLabelHidden choices={STATES} value={state} onChange={(state) => change({ state })} />
        </div>
      )}
      {data && (
        <Table
          label="Schedules"
          rows={rows}
          keyOf={({ id }) => id}
          linkOf={({ id }) => ({ to: '/$workspace/schedules/$schedule', params: { workspace: slug, schedule: id } })}
          columns={[
            { title: 'Agent', cell: ({ agent_name }) => agent_name },
            { title: 'State', cell: (schedule) => <State schedule={schedule} /> },
            { title: 'When', cell: (schedule) => <When schedule={schedule} />, from: 'sm' },
            { title: 'Next run', cell: ({ next_run_at }) => <Time at={next_run_at} />, from: 'md' },
            {
              title: 'Last run',
              cell: ({ last_run_status }) => (last_run_status ? <Status value={last_run_status} /> : 'Never'),
            },
            { title: 'Started', cell: ({ last_run_at }) => <Time at={last_run_at} />, from: 'lg' },
            { title: 'Runs', cell: ({ run_count }) => run_count, isNumber: true, from: 'md' },
          ]}
          empty={
            isFiltered ? (
              <NoMatch icon={CalendarClock} title="No schedule matches these filters" search={{ week }} />
            ) : (
              <Empty
                icon={CalendarClock}
                title="No schedules yet"
                command={`${COMMAND} schedule create AGENT --cron-expression "0 9 * * 1-5"`}
              >
                A schedule runs an agent at set times, or when another system posts to its webhook URL. Create one
                above, or from a terminal:
              </Empty>
            )
          }
        />
      )}
      {pages > 1 && (
        <p className="flex gap-3 text-soft">
          Page {offset / PAGE + 1} of {pages}
          {offset > 0 && (
            <Link to="." search={{ ...search, page: String(offset / PAGE) }}>
              Previous
            </Link>
          )}
          {offset / PAGE + 1 < pages && (
            <Link to="." search={{ ...search, page: String(offset / PAGE + 2) }}>
              Next
            </Link>
          )}
        </p>
      )}
      {rows.length > 0 && (
        <WeekCalendar schedules={rows} week={week} onWeek={(week) => change({ week, page: search.page })} />
      )}
    </Page>
  );
}

const State = ({ schedule }: { readonly schedule: Schedule }) =>
  isStopped(schedule) ? (
    <Stopped schedule={schedule} />
  ) : (
    <div className="flex max-w-md flex-col items-start gap-1">
      <Status value={stateOf(schedule)} />
      <Warnings schedule={schedule} />
    </div>
  );

function Stopped({ schedule }: { readonly schedule: Schedule }) {
  const { id: workspace_id, role } = useWorkspace();
  const update = useAction('updateSchedule', { stale: ['listSchedules', 'listUpcoming'] });
  const { keep } = useWarnings();
  const { id: schedule_id, agent_name, auto_disabled_reason, max_consecutive_failures } = schedule;
  const enable = () =>
    update.mutate(
      { params: { workspace_id, schedule_id }, body: { enabled: true } },
      { onSuccess: ({ warnings }) => keep(schedule_id, warnings) },
    );
  return (
    <div className="flex max-w-md flex-wrap items-center gap-x-3 gap-y-1">
      <span>
        <Status value={stateOf(schedule)} />
        <span className="text-soft">
          {' '}
          after {max_consecutive_failures} {max_consecutive_failures === 1 ? 'failure' : 'failures'}
        </span>
      </span>
      {role === 'owner' && (
        // Raised above the link that fills the row.
        <span className="relative z-10">
          <Button icon={Play} onPress={enable} isPending={update.isPending} aria-label={`Enable ${agent_name}`}>
            Enable
          </Button>
        </span>
      )}
      {auto_disabled_reason !== null && (
        <p className="line-clamp-2 w-full text-soft break-words">{escapeText(auto_disabled_reason)}</p>
      )}
    </div>
  );
}

const isStopped = (schedule: Schedule): boolean => stateOf(schedule) === 'auto_disabled';

const When = ({ schedule: { cron_expression, timezone } }: { readonly schedule: Schedule }) =>
  cron_expression === null ? (
    'On webhook requests'
  ) : (
    <>
      {cronInWords(cron_expression)} <span className="text-soft">{timezone}</span>
    </>
  );
