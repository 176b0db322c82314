import { getRouteApi } from '@tanstack/react-router';
import { ArrowUpCircle, Pause, Play, RotateCw, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useLiveRefresh } from '../../live/use-live.ts';
import { Button } from '../../ui/button.tsx';
import { CopyIcon } from '../../ui/copy.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Timeline } from '../../ui/data/timeline.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link, OutsideLink } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Facts, Page } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { toast } from '../../ui/toast.tsx';
import { EnvironmentTab } from './environment-tab.tsx';
import { LogsTab } from './logs-tab.tsx';
import { MetricsTab } from './metrics-tab.tsx';
import { SecretsTab } from './secrets-tab.tsx';
import { type Service, stateOf } from './service-state.ts';
import { SettingsTab } from './settings-tab.tsx';

const route = getRouteApi('/signed-in/$workspace/services/$service');
const TABS = ['logs', 'environment', 'secrets', 'settings', 'metrics', 'events'] as const;
const STALE = ['getService', 'listServices'] as const;
/** Polling interval, because health changes emit no event. */
const EVERY_MS = 10_000;

/** A service: its state, logs, configuration and actions. */
export function ServicePage() {
  const { id: workspace_id } = useWorkspace();
  const { service: service_id } = route.useParams();
  const { tab = 'logs' } = route.useSearch();
  const [isPaused, setPaused] = useState(false);
  const live = useLiveRefresh(['service'], STALE, { isPaused });
  const params = { workspace_id, service_id };
  const { data, error, refetch } = useOperation(
    'getService',
    { params },
    { refetchInterval: isPaused ? false : EVERY_MS },
  );
  const service = data?.service;
  return (
    <Page
      title={service?.service_name ?? 'Service'}
      heading={
        service && (
          <span className="flex flex-wrap items-center gap-2">
            {service.service_name}
            <Status value={stateOf(service)} />
            {service.desired_state === 'running' && <Status value={service.health} />}
          </span>
        )
      }
      actions={<LiveBadge state={live} onPause={() => setPaused(!isPaused)} />}
      tabs={
        service && (
          <>
            <Actions service={service} />
            <CrashBanner service={service} />
            <About service={service} />
            <Tabs
              label="Parts of the service"
              tabs={TABS.map((each) => ({
                label: each[0]!.toUpperCase() + each.slice(1),
                search: { tab: each === 'logs' ? undefined : each },
                isCurrent: each === tab,
              }))}
            />
          </>
        )
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!service && !error && <Loading />}
      {service && (
        <>
          {tab === 'logs' && <LogsTab service={service} isPaused={isPaused} />}
          {tab === 'environment' && <EnvironmentTab service={service} />}
          {tab === 'secrets' && <SecretsTab service={service} />}
          {tab === 'settings' && <SettingsTab service={service} />}
          {tab === 'metrics' && <MetricsTab service={service} />}
          {tab === 'events' && <Timeline entries={service.events} />}
        </>
      )}
    </Page>
  );
}

function About({ service: { service_url, agent_name, agent_version, restart_count } }: { readonly service: Service }) {
  const { slug } = useWorkspace();
  return (
    <Facts
      facts={[
        [
          'Address',
          service_url === null ? (
            'Not assigned yet'
          ) : (
            <span key="url" className="flex h-5 items-center gap-1">
              <OutsideLink href={service_url}>{service_url}</OutsideLink>
              <CopyIcon text={service_url} label="Copy URL" />
            </span>
          ),
        ],
        [
          'Agent',
          <Link key="agent" to="/$workspace/agents/$name" params={{ workspace: slug, name: agent_name }}>
            {agent_name}@{agent_version}
          </Link>,
        ],
        ['Restarts', String(restart_count)],
      ]}
    />
  );
}

/** Shows the progress and outcome of a crash loop. */
function CrashBanner({ service }: { readonly service: Service }) {
  const { consecutive_restart_failures: failed, max_restart_failures: most, auto_paused_at, last_error } = service;
  const isOver = failed >= most && auto_paused_at !== null;
  if (failed === 0 && auto_paused_at === null && service.current_state !== 'failed') return null;
  return (
    <div role="note" className="flex flex-col gap-1 rounded-lg border border-line bg-bad-ground p-3">
      {isOver && (
        <p className="font-medium">
          Paused <Time at={auto_paused_at} /> after {failed} of {most} consecutive failed starts.
        </p>
      )}
      {!isOver && failed > 0 && (
        <p className="font-medium">
          {failed} of {most} consecutive starts failed. After {most}, the service is paused.
        </p>
      )}
      {!isOver && auto_paused_at !== null && (
        <p className="font-medium">
          The platform paused the service <Time at={auto_paused_at} />. Its events show why.
        </p>
      )}
      {last_error !== null && <p>{escapeText(last_error)}</p>}
      {isOver && <p className="text-soft">Check the log, fix the cause, and start the service.</p>}
    </div>
  );
}

function Actions({ service }: { readonly service: Service }) {
  const { id: workspace_id, slug, role } = useWorkspace();
  const navigate = route.useNavigate();
  const [isDeleting, setDeleting] = useState(false);
  const restart = useAction('restartService', { stale: STALE });
  const update = useAction('updateService', { stale: STALE });
  const move = useAction('updateServiceVersion', { stale: STALE });
  const remove = useAction('deleteService', { stale: ['listServices'], silent: true });
  if (role !== 'owner') return <p className="text-soft">Only workspace owners can change it.</p>;
  if (service.current_state === 'deleting' || service.current_state === 'deleted') return null;
  const params = { workspace_id, service_id: service.id };
  const say = (text: string, undo?: () => void) => ({
    onSuccess: () => toast({ tone: 'good', text, ...(undo && { action: { label: 'Undo', run: undo } }) }),
  });
  const resume = () => update.mutate({ params, body: { desired_state: 'running' } }, say('Starting the service.'));
  const pause = () => update.mutate({ params, body: { desired_state: 'stopped' } }, say('Service paused.', resume));
  const followUp = () =>
    move.mutate(
      { params },
      {
        onSuccess: ({ updated_to }) =>
          toast({
            tone: 'good',
            text: updated_to
              ? `Updating the service to ${updated_to}.`
              : 'The service already runs the current version.',
          }),
      },
    );
  return (
    <div className="flex flex-wrap gap-2">
      {service.desired_state === 'running' ? (
        <>
          <Button
            icon={RotateCw}
            isPending={restart.isPending}
            onPress={() => restart.mutate({ params }, say('Restarting the service.'))}
          >
            Restart
          </Button>
          <Button icon={Pause} isPending={update.isPending} onPress={pause}>
            Pause service
          </Button>
        </>
      ) : (
        <Button variant="primary" icon={Play} isPending={update.isPending} onPress={resume}>
          Start service
        </Button>
      )}
      <Button icon={ArrowUpCircle} isPending={move.isPending} onPress={followUp}>
        Move to current version
      </Button>
      <Button variant="danger" icon={Trash2} onPress={() => setDeleting(true)}>
        Delete
      </Button>
      <ConfirmDialog
        title={`Delete ${service.service_name}?`}
        isOpen={isDeleting}
        onClose={() => setDeleting(false)}
        action="Delete service"
        typed={service.service_name}
        onConfirm={async () => {
          await remove.mutateAsync({ params });
          void navigate({ to: '/$workspace/services', params: { workspace: slug } });
        }}
      >
        Its instances stop, its URL stops working, and its log is deleted. This cannot be undone.
      </ConfirmDialog>
    </div>
  );
}
