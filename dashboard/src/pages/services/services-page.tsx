import { Plus, Server } from 'lucide-react';
import { useState } from 'react';
import { useAllRows } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useLiveRefresh } from '../../live/use-live.ts';
import { LinkButton } from '../../ui/button.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { OutsideLink } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { stateOf } from './service-state.ts';

const PAGE = 200;
/** Polling interval, because health changes emit no event. */
const EVERY_MS = 15_000;

/** Agents of the workspace that run as services. */
export function ServicesPage() {
  const { id: workspace_id, slug, role } = useWorkspace();
  const [isPaused, setPaused] = useState(false);
  const { rows, isWhole, error, refetch } = useAllRows('listServices', {
    args: (offset = '0') => ({ params: { workspace_id }, query: { limit: PAGE, offset: Number(offset) } }),
    rowsOf: ({ services }) => services,
    nextOf: ({ total, services }, known) => (services.length > 0 && known < total ? String(known) : undefined),
    refetchInterval: isPaused ? false : EVERY_MS,
  });
  const live = useLiveRefresh(['service'], ['listServices'], { isPaused });
  return (
    <Page
      title="Services"
      description="Agents that keep running, each at its own URL."
      actions={
        <>
          <LiveBadge state={live} onPause={() => setPaused(!isPaused)} />
          {role === 'owner' && (
            <LinkButton variant="primary" icon={Plus} to="/$workspace/services/new" params={{ workspace: slug }}>
              Deploy service
            </LinkButton>
          )}
        </>
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!rows && !error && <Loading />}
      {rows && (
        <Table
          label="Services"
          rows={rows}
          keyOf={({ id }) => id}
          linkOf={({ id }) => ({ to: '/$workspace/services/$service', params: { workspace: slug, service: id } })}
          columns={[
            { title: 'Service', cell: ({ service_name }) => service_name },
            { title: 'State', cell: (service) => <Status value={stateOf(service)} /> },
            { title: 'Health', cell: ({ health }) => <Status value={health} />, from: 'sm' },
            { title: 'Agent', cell: ({ agent_name, agent_version }) => `${agent_name}@${agent_version}`, from: 'md' },
            {
              title: 'URL',
              cell: ({ service_url }) =>
                service_url !== null && (
                  <span className="relative z-10">
                    <OutsideLink href={service_url}>{service_url}</OutsideLink>
                  </span>
                ),
              from: 'lg',
            },
            { title: 'Restarts', cell: ({ restart_count }) => restart_count, isNumber: true, from: 'sm' },
            { title: 'Deployed', cell: ({ deployed_at }) => <Time at={deployed_at} />, from: 'md' },
          ]}
          empty={
            <Empty icon={Server} title="No services yet" command={`${COMMAND} service deploy ${slug}/<agent>`}>
              A service is an agent that keeps running: a bot, a web app or a worker. Deploy one above, or from a
              terminal:
            </Empty>
          }
        />
      )}
      {rows && !isWhole && <p className="text-soft">Loading more services…</p>}
    </Page>
  );
}
