import { getRouteApi } from '@tanstack/react-router';
import { Bot, Share2, Star } from 'lucide-react';
import { lazy, Suspense, useState } from 'react';
import { useFavorites } from '../../api/favorites.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { useLiveRefresh } from '../../live/use-live.ts';
import { Button, IconButton, LinkButton } from '../../ui/button.tsx';
import { Badge } from '../../ui/data/status.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { ShareChatDialog } from '../chat-links/share-chat-dialog.tsx';
import { Playground } from './playground.tsx';
import { timeLimitOf } from './time-limit.ts';
import { numberOf, type TabProps } from './version.ts';

const VersionsTab = lazy(() => import('./versions-tab.tsx'));
const CodeTab = lazy(() => import('./code-tab.tsx'));
const ApiTab = lazy(() => import('./api-tab.tsx'));
const EvalsTab = lazy(() => import('./evals/evals-tab.tsx'));
const ScoresTab = lazy(() => import('./scores-tab.tsx'));
const SettingsTab = lazy(() => import('./settings-tab.tsx'));

const route = getRouteApi('/signed-in/$workspace/agents/$name');
const ID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

/** Operations of the playground. */
const STALE_BY_RUNS = ['listRuns', 'getCostEstimate'] as const;

/** One agent: its playground, versions, code, API, evaluations, scores and settings. `$name` may also be a version id. */
export function AgentPage() {
  const { name } = route.useParams();
  const { slug: workspace } = useWorkspace();
  const { v, tab = 'playground' } = route.useSearch();
  const isId = ID.test(name);
  const byId = useOperation('getAgent', { params: { id: name } }, { enabled: isId, staleTime: 30_000 });
  const own = isId ? byId.data?.name : name;
  const list = useOperation(
    'listAgents',
    { query: { name: own ?? '' } },
    { enabled: own !== undefined, staleTime: 30_000 },
  );
  useLiveRefresh(tab === 'playground' ? ['agent', 'run'] : ['agent'], (kind) =>
    kind === 'agent' ? ['listAgents'] : STALE_BY_RUNS,
  );
  const error = byId.error ?? list.error;
  const versions = list.data?.toSorted((a, b) => numberOf(b) - numberOf(a));
  const wanted = v ?? byId.data?.version;
  const agent = versions?.find(({ version }) => version === (wanted ?? versions[0]!.current_version)) ?? versions?.[0];
  if (error || versions === undefined) {
    return (
      <Page title={name}>
        {error ? <ErrorBox error={error} onRetry={() => void (isId ? byId : list).refetch()} /> : <Loading />}
      </Page>
    );
  }
  if (agent === undefined) {
    return (
      <Page title={name}>
        <Empty
          icon={Bot}
          title={`This workspace has no agent “${name}”`}
          command={`${COMMAND} publish ${name}`}
          action={
            <LinkButton to="/$workspace/agents" params={{ workspace }}>
              All agents
            </LinkButton>
          }
        >
          It may have been deleted, or belong to another workspace. Publish it from its folder:
        </Empty>
      </Page>
    );
  }
  return <AgentFrame agent={agent} versions={versions} />;
}

function AgentFrame({ agent, versions }: TabProps) {
  const { slug: workspace } = useWorkspace();
  const { tab = 'playground' } = route.useSearch();
  const navigate = route.useNavigate();
  const { name } = agent;
  const [favorites, turnFavorite] = useFavorites();
  const isFavorite = favorites.includes(name);
  const [isSharing, setSharing] = useState(false);
  const tabTo = (id: string, label: string) => ({
    label,
    to: '/$workspace/agents/$name',
    params: { workspace, name },
    search: { v: agent.version, ...(id !== 'playground' && { tab: id }) },
    isCurrent: tab === id,
  });
  return (
    <Page
      title={name}
      isWide
      heading={
        <span className="flex flex-wrap items-center gap-2">
          <span className="min-w-0 break-words">{name}</span> <Badge>{agent.type}</Badge>
          {agent.durable && <Badge tone="info">{`Durable, ${timeLimitOf(agent)}`}</Badge>}
          {agent.is_public && <Badge tone="info">Public</Badge>}
          {agent.sunset_at && <Badge tone="warn">Superseded by {agent.current_version}</Badge>}
        </span>
      }
      description={<span className="break-words">{agent.description}</span>}
      actions={
        <>
          <IconButton
            icon={Star}
            variant={isFavorite ? 'plain' : 'quiet'}
            label={isFavorite ? 'Remove from favorites' : 'Add to favorites'}
            onPress={() => turnFavorite(name)}
          />
          {agent.callable && (
            <Button icon={Share2} onPress={() => setSharing(true)}>
              Share as chat
            </Button>
          )}
          <div className="w-28">
            <Select
              label="Version"
              isLabelHidden
              value={agent.version}
              onChange={(next) =>
                void navigate({ params: (now) => ({ ...now, name }), search: (now) => ({ ...now, v: next }) })
              }
              choices={versions.map(({ version }) => ({ id: version, label: version }))}
            />
          </div>
        </>
      }
      tabs={
        <Tabs
          label="Parts of the agent"
          tabs={[
            tabTo('playground', 'Playground'),
            ...(agent.callable && agent.sessions !== false
              ? [{ label: 'Chat', to: '/$workspace/agents/$name/chat', params: { workspace, name }, isCurrent: false }]
              : []),
            tabTo('versions', 'Versions'),
            tabTo('code', 'Code'),
            tabTo('api', 'API'),
            ...(agent.type === 'skill' ? [] : [tabTo('evals', 'Evaluations')]),
            tabTo('scores', 'Scores'),
            {
              label: 'Runs',
              to: '/$workspace/runs',
              params: { workspace },
              search: { agent: name },
              isCurrent: false,
            },
            tabTo('settings', 'Settings'),
          ]}
        />
      }
    >
      {isSharing && <ShareChatDialog agent={`${workspace}/${name}`} onClose={() => setSharing(false)} />}
      <Suspense fallback={<Loading />}>
        {tab === 'versions' && <VersionsTab agent={agent} versions={versions} />}
        {tab === 'code' && <CodeTab key={agent.id} agent={agent} />}
        {tab === 'api' && <ApiTab agent={agent} />}
        {tab === 'evals' && <EvalsTab agent={agent} versions={versions} />}
        {tab === 'scores' && <ScoresTab agent={agent} />}
        {tab === 'settings' && <SettingsTab key={agent.id} agent={agent} versions={versions} />}
        {tab === 'playground' &&
          (agent.callable ? (
            <Playground key={agent.id} agent={agent} />
          ) : (
            <p className="text-soft">
              {agent.type === 'skill'
                ? 'Skills are not called directly: agents that reference them follow their instructions.'
                : 'This agent runs as a service and is not called directly.'}
            </p>
          ))}
      </Suspense>
    </Page>
  );
}
