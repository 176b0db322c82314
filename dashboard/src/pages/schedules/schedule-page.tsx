import { getRouteApi } from '@tanstack/react-router';
import { Copy, History as HistoryIcon, Pause, Pencil, Play, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { API_URL } from '../../base.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useLiveRefresh } from '../../live/use-live.ts';
import { Button, LinkButton } from '../../ui/button.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Duration, Time } from '../../ui/data/time.tsx';
import { Timeline } from '../../ui/data/timeline.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Facts, Page, Section } from '../../ui/page.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';
import { Code, CodeBlock } from '../../ui/text/code.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { JsonView } from '../../ui/text/viewer.tsx';
import { toast } from '../../ui/toast.tsx';
import { cronInWords } from './cron-words.ts';
import { NextRuns } from './next-runs.tsx';
import { ScheduleForm } from './schedule-form.tsx';
import { type Schedule, stateOf } from './schedule-state.ts';
import { useWarnings, Warnings } from './warnings.tsx';

const route = getRouteApi('/signed-in/$workspace/schedules/$schedule');
const ALL = ['getSchedule', 'listSchedules', 'listScheduleRuns', 'listScheduleEvents', 'listUpcoming'] as const;

/** A schedule: its times, input, history and actions. */
export function SchedulePage() {
  const { id: workspace_id } = useWorkspace();
  const { schedule: schedule_id } = route.useParams();
  const { edit } = route.useSearch();
  const navigate = route.useNavigate();
  const [isPaused, setPaused] = useState(false);
  const live = useLiveRefresh(['run', 'schedule'], ALL, { isPaused });
  const params = { workspace_id, schedule_id };
  const { data, error, refetch } = useOperation('getSchedule', { params });
  const update = useAction('updateSchedule', { stale: ALL, silent: true });
  const schedule = data?.schedule;
  const { keep } = useWarnings();
  const show = () => navigate({ search: {} });
  const title = schedule ? `Schedule of ${schedule.agent_name}` : 'Schedule';
  return (
    <Page
      title={title}
      heading={
        schedule && (
          <span className="flex flex-wrap items-center gap-2">
            {schedule.agent_name}
            <Status value={stateOf(schedule)} />
          </span>
        )
      }
      description={schedule && <When schedule={schedule} />}
      actions={<LiveBadge state={live} onPause={() => setPaused(!isPaused)} />}
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {schedule && edit !== undefined && <Warnings schedule={schedule} />}
      {schedule && edit !== undefined && (
        <ScheduleForm
          of={schedule}
          isNew={false}
          error={update.error}
          isPending={update.isPending}
          onSubmit={(body) =>
            update.mutate(
              { params, body },
              {
                onSuccess: ({ warnings }) => {
                  keep(schedule.id, warnings);
                  void show();
                },
              },
            )
          }
          onClose={() => void show()}
        />
      )}
      {schedule && edit === undefined && <Shown schedule={schedule} />}
    </Page>
  );
}

const When = ({ schedule: { cron_expression, timezone } }: { readonly schedule: Schedule }) =>
  cron_expression === null ? (
    'Runs on webhook requests'
  ) : (
    <>
      Runs {cronInWords(cron_expression)}, {timezone}{' '}
      <span className="whitespace-nowrap">
        <Code>{cron_expression}</Code>
      </span>
    </>
  );

function Shown({ schedule }: { readonly schedule: Schedule }) {
  const { ends_at, max_runs, run_count } = schedule;
  const { id, agent_version, auto_disabled_at, auto_disabled_reason, cron_expression, timezone, input_data } = schedule;
  return (
    <>
      <Actions schedule={schedule} />
      <Warnings schedule={schedule} />
      {stateOf(schedule) === 'auto_disabled' && (
        <p role="note" className="rounded-lg border border-line bg-bad-ground p-3">
          Disabled <Time at={auto_disabled_at} />, after {schedule.max_consecutive_failures} failures in a row
          {auto_disabled_reason === null ? '. ' : <>: {escapeText(auto_disabled_reason)} </>}
          Fix the cause, then enable the schedule.
        </p>
      )}
      {stateOf(schedule) === 'ended' && (
        <p role="note" className="rounded-lg border border-line p-3">
          Ended <Time at={schedule.ended_at ?? null} />,{' '}
          {schedule.ended_reason === 'max_runs' ? 'after its last run' : 'because no run is left until its end'}. To go
          on, change its end and enable it.
        </p>
      )}
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <Section title="Settings">
          <Facts
            facts={[
              ['Version', `${agent_version}, ${followed(schedule)}`],
              ['While a run is in progress', schedule.overlap === 'skip' ? 'Skip the next one' : 'Start the next one'],
              ['Alerts', schedule.alert_webhook_url ?? 'None'],
              ['Failures in a row', `${schedule.consecutive_failures} of ${schedule.max_consecutive_failures}`],
              ['Runs', max_runs === undefined ? String(run_count) : `${run_count} of ${max_runs}`],
              ['Ends', ends_at === undefined ? 'Never' : <Time key="ends" at={ends_at} />],
              ['Created', <Time key="created" at={schedule.created_at} />],
              ['ID', <Code key="id">{id}</Code>],
            ]}
          />
        </Section>
        {cron_expression !== null && schedule.enabled && (
          <Section title="Next runs" isFramed={false}>
            <NextRuns
              cron={cron_expression}
              timezone={timezone}
              endsAt={ends_at}
              maxRuns={max_runs === undefined ? undefined : max_runs - run_count}
            />
          </Section>
        )}
        {cron_expression === null && <Webhook schedule={schedule} />}
      </div>
      <Runs scheduleId={id} />
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <Section title="Input" isFramed={false}>
          <JsonView value={input_data} name="input" />
        </Section>
        <History scheduleId={id} />
      </div>
    </>
  );
}

function Actions({ schedule }: { readonly schedule: Schedule }) {
  const { id: workspace_id, slug, role } = useWorkspace();
  const navigate = route.useNavigate();
  const [isDeleting, setDeleting] = useState(false);
  const trigger = useAction('triggerSchedule', { stale: ALL });
  const update = useAction('updateSchedule', { stale: ALL });
  const remove = useAction('deleteSchedule', { stale: ['listSchedules', 'listUpcoming'], silent: true });
  const { keep } = useWarnings();
  const alert = useAction('sendTestAlert', { stale: ['listScheduleEvents'] });
  if (role !== 'owner') return <p className="text-soft">Only workspace owners can run or change it.</p>;
  const params = { workspace_id, schedule_id: schedule.id };
  const turn = (enabled: boolean) =>
    update.mutate(
      { params, body: { enabled } },
      {
        onSuccess: ({ warnings }) => {
          if (enabled) keep(schedule.id, warnings);
          toast({
            tone: 'good',
            text: enabled ? 'Schedule enabled.' : 'Schedule paused.',
            ...(!enabled && { action: { label: 'Undo', run: () => turn(true) } }),
          });
        },
      },
    );
  const run = () =>
    trigger.mutate(
      { params, body: {} },
      {
        onSuccess: ({ status, error }) =>
          status === 'success'
            ? toast({ tone: 'good', text: 'The run completed.' })
            : toast({ tone: 'bad', text: `The run failed: ${escapeText(error ?? status).slice(0, 300)}` }),
      },
    );
  return (
    <div className="flex flex-wrap gap-2">
      <Button variant="primary" icon={Play} onPress={run} isPending={trigger.isPending}>
        Run now
      </Button>
      {schedule.enabled ? (
        <Button icon={Pause} onPress={() => turn(false)} isPending={update.isPending}>
          Pause schedule
        </Button>
      ) : (
        <Button icon={Play} onPress={() => turn(true)} isPending={update.isPending}>
          Enable schedule
        </Button>
      )}
      <Button icon={Pencil} onPress={() => void navigate({ search: { edit: 'yes' } })}>
        Edit
      </Button>
      <LinkButton
        icon={Copy}
        to="/$workspace/schedules/new"
        params={{ workspace: slug }}
        search={{ from: schedule.id }}
      >
        Duplicate
      </LinkButton>
      {schedule.alert_webhook_url !== null && (
        <Button
          isPending={alert.isPending}
          onPress={() =>
            alert.mutate(
              { params },
              {
                onSuccess: ({ success }) =>
                  toast(
                    success
                      ? { tone: 'good', text: 'The test alert was delivered.' }
                      : { tone: 'bad', text: 'The test alert was not delivered. The timeline shows the reason.' },
                  ),
              },
            )
          }
        >
          Send test alert
        </Button>
      )}
      <Button variant="danger" icon={Trash2} onPress={() => setDeleting(true)}>
        Delete
      </Button>
      <ConfirmDialog
        title={`Delete the schedule of ${schedule.agent_name}?`}
        isOpen={isDeleting}
        onClose={() => setDeleting(false)}
        action="Delete schedule"
        onConfirm={async () => {
          await remove.mutateAsync({ params });
          void navigate({ to: '/$workspace/schedules', params: { workspace: slug } });
        }}
      >
        It will no longer run. Past runs are kept.
      </ConfirmDialog>
    </div>
  );
}

function Webhook({ schedule }: { readonly schedule: Schedule }) {
  const { id: workspace_id, role } = useWorkspace();
  const rotate = useAction('regenerateWebhook', { stale: ALL, silent: true });
  const [isAsking, setAsking] = useState(false);
  const [url, setUrl] = useState<string>();
  const params = { workspace_id, schedule_id: schedule.id };
  return (
    <Section title="Webhook">
      <div className="flex flex-col gap-3">
        <p className="text-soft">
          The URL was shown when the schedule was created. Its secret begins with{' '}
          <Code>{schedule.webhook_secret_preview ?? ''}</Code>
        </p>
        <CodeBlock
          text={`curl -X POST ${API_URL}/webhooks/${schedule.id}/$SECRET \\\n  -H 'Content-Type: application/json' -d '{}'`}
          label="Copy command"
        />
        {role === 'owner' && (
          <div>
            <Button onPress={() => setAsking(true)}>Rotate URL</Button>
          </div>
        )}
      </div>
      <ConfirmDialog
        title="Rotate the URL?"
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        action="Rotate URL"
        onConfirm={async () => setUrl((await rotate.mutateAsync({ params })).webhook_url)}
      >
        The old URL stops working immediately.
      </ConfirmDialog>
      {url !== undefined && <ShownOnce title="Webhook URL" text={url} onClose={() => setUrl(undefined)} />}
    </Section>
  );
}

function Runs({ scheduleId }: { readonly scheduleId: string }) {
  const { id: workspace_id, slug } = useWorkspace();
  const params = { workspace_id, schedule_id: scheduleId };
  const { data, error } = useOperation('listScheduleRuns', { params, query: { limit: 50 } });
  return (
    <Section
      title="Runs"
      isFramed={false}
      description={data && data.total > 50 ? `Latest 50 of ${data.total}` : undefined}
    >
      {error && <ErrorBox error={error} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Runs"
          rows={data.runs}
          keyOf={({ id }) => id!}
          linkOf={({ id }) => ({ to: '/$workspace/runs/$run', params: { workspace: slug, run: id! } })}
          columns={[
            { title: 'Status', cell: ({ status }) => <Status value={status!} /> },
            { title: 'Started', cell: ({ started_at }) => <Time at={started_at} /> },
            { title: 'Duration', cell: ({ duration_ms }) => <Duration ms={duration_ms} />, isNumber: true },
            { title: 'Source', cell: ({ trigger_source }) => trigger_source?.replaceAll('_', ' ') ?? '', from: 'sm' },
            { title: 'Version', cell: ({ agent_version }) => agent_version, from: 'md' },
            {
              title: 'Error',
              cell: ({ error_message }) => <span className="line-clamp-2">{escapeText(error_message ?? '')}</span>,
              from: 'md',
            },
          ]}
          empty={
            <Empty icon={HistoryIcon} title="No runs yet">
              Every run that this schedule starts is listed here. To try it, start a run now.
            </Empty>
          }
        />
      )}
    </Section>
  );
}

function History({ scheduleId }: { readonly scheduleId: string }) {
  const { id: workspace_id } = useWorkspace();
  const params = { workspace_id, schedule_id: scheduleId };
  const { data, error } = useOperation('listScheduleEvents', { params, query: { limit: 20 } });
  return (
    <Section title="Timeline" isFramed={false}>
      {error && <ErrorBox error={error} />}
      {!data && !error && <Loading />}
      {data && <Timeline entries={data.events} />}
    </Section>
  );
}

const followed = ({ auto_update, channel }: Pick<Schedule, 'auto_update' | 'channel'>): string =>
  !auto_update ? 'fixed' : channel === undefined ? 'follows new versions' : `follows the channel ${channel}`;
