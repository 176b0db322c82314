import { getRouteApi } from '@tanstack/react-router';
import { useOperation } from '../../api/query.ts';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { Badge } from '../../ui/status.tsx';
import { Playground } from './playground.tsx';

const route = getRouteApi('/signed-in/$workspace/agents/$name');
const numberOf = (version: string): number => Number(version.replace(/^v/, '')) || Number.POSITIVE_INFINITY;

/** One agent: what it is, and the playground of one of its versions. `$name` may also be the id of a version. */
export function AgentPage() {
  const { name } = route.useParams();
  const { v } = route.useSearch();
  const navigate = route.useNavigate();
  const { data, error, refetch } = useOperation('listAgents', {}, { staleTime: 30_000 });
  const byId = data?.find(({ id }) => id === name);
  const versions = (data ?? [])
    .filter((each) => each.name === (byId?.name ?? name))
    .sort((a, b) => numberOf(b.version) - numberOf(a.version));
  const agent = byId ?? versions.find(({ version }) => version === v) ?? versions[0];
  if (error) {
    return (
      <Page title={name}>
        <ErrorBox error={error} onRetry={() => void refetch()} />
      </Page>
    );
  }
  if (data === undefined) {
    return (
      <Page title={name}>
        <Loading />
      </Page>
    );
  }
  if (agent === undefined) {
    return (
      <Page title={name}>
        <p>This workspace has no agent “{name}”.</p>
      </Page>
    );
  }
  return (
    <Page
      title={agent.name}
      isWide
      heading={
        <span className="flex flex-wrap items-center gap-2">
          {agent.name} <Badge>{agent.type}</Badge>
          {agent.is_public && <Badge tone="info">Public</Badge>}
        </span>
      }
      description={agent.description}
      actions={
        <div className="w-28">
          <Select
            label="Version"
            isLabelHidden
            value={agent.version}
            onChange={(next) =>
              void navigate({
                params: (now) => ({ ...now, name: agent.name }),
                search: (now) => ({ ...now, v: next }),
              })
            }
            choices={versions.map(({ version }) => ({ id: version, label: version }))}
          />
        </div>
      }
    >
      {agent.callable ? (
        <Playground key={agent.id} agent={agent} />
      ) : (
        <p className="text-soft">
          {agent.type === 'skill'
            ? 'A skill is not called: agents that name it follow it.'
            : 'It runs as a service and is not called.'}
        </p>
      )}
    </Page>
  );
}
