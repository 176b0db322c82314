import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { duration, Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import type { Service } from './service-state.ts';

const DAYS = 30;

/** Uptime and start metrics of a service. CPU and memory are not recorded. */
export function MetricsTab({ service }: { readonly service: Service }) {
  const { slug } = useWorkspace();
  const { data, error, refetch } = useOperation('getComputeUsage', { query: { days: DAYS } }, { staleTime: 30_000 });
  if (error) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (!data) return <Loading />;
  const own = data.by_service.find(({ service_id }) => service_id === service.id)?.runtime_minutes ?? 0;
  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      <Section title={`Runtime in ${DAYS} days`} description="Total of all instances.">
        <Facts
          facts={[
            ['This service', duration(own * 60_000)],
            ['All services', duration(data.total_service_minutes * 60_000)],
          ]}
        />
      </Section>
      <Section title="Starts">
        <Facts
          facts={[
            ['Restarts', String(service.restart_count)],
            [
              'Consecutive failures',
              `${service.consecutive_restart_failures} of ${service.max_restart_failures} until the service is paused`,
            ],
            ['Last restart', <Time key="restart" at={service.last_restart_at} />],
            ['Last deployed', <Time key="deployed" at={service.last_deployed_at} />],
            [
              'Calls by the loop',
              <Link
                key="runs"
                to="/$workspace/runs"
                params={{ workspace: slug }}
                search={{ agent: service.agent_name, source: 'service' }}
              >
                Runs that the service started
              </Link>,
            ],
          ]}
        />
      </Section>
    </div>
  );
}
