import { getRouteApi } from '@tanstack/react-router';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { useLiveRefresh } from '../../live/use-live.ts';
import { Credits } from '../../ui/data/numbers.tsx';
import { Badge } from '../../ui/data/status.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Facts, Page, Section } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { TextView } from '../../ui/text/viewer.tsx';
import { Fork } from '../agents/fork.tsx';
import { Playground } from '../agents/playground.tsx';
import { SchemaTable } from '../agents/schema-table.tsx';
import { timeLimitOf } from '../agents/time-limit.ts';

const route = getRouteApi('/signed-in/$workspace/catalog/$org/$agent');

/** A public agent: its playground, description and copy action. Its runs belong to the workspace of the page. */
export function CatalogAgentPage() {
  const { org, agent: name } = route.useParams();
  const { tab: wanted } = route.useSearch();
  const { slug } = useWorkspace();
  const {
    data: agent,
    error,
    refetch,
  } = useOperation('getPublicAgent', {
    params: { org, agent: name, version: 'latest' },
  });
  useLiveRefresh(['run'], ['listRuns', 'getCostEstimate']);
  const title = `${org}/${name}`;
  if (agent === undefined) {
    return <Page title={title}>{error ? <ErrorBox error={error} onRetry={() => void refetch()} /> : <Loading />}</Page>;
  }
  const tab = wanted ?? (agent.callable ? 'playground' : 'about');
  const tabTo = (id: string, label: string) => ({
    label,
    to: '/$workspace/catalog/$org/$agent',
    params: { workspace: slug, org, agent: name },
    search: { tab: id },
    isCurrent: tab === id,
  });
  return (
    <Page
      title={title}
      isWide
      heading={
        <span className="flex flex-wrap items-center gap-2">
          <span className="min-w-0 break-all">{title}</span> <Badge>{agent.type}</Badge> <Badge>{agent.version}</Badge>
        </span>
      }
      description={<span className="break-words">{escapeText(agent.description ?? '')}</span>}
      tabs={
        <Tabs
          label="Parts of the agent"
          tabs={[
            ...(agent.callable ? [tabTo('playground', 'Playground')] : []),
            tabTo('about', 'About'),
            tabTo('fork', 'Fork'),
          ]}
        />
      }
    >
      {tab === 'playground' && agent.callable && <Playground key={agent.id} agent={agent} />}
      {tab === 'about' && (
        <>
          <Section title="About">
            <Facts
              facts={[
                ['Workspace', agent.org_name],
                ['Published', <Time key="at" at={agent.created_at} />],
                ['Time limit', timeLimitOf(agent)],
                ['Tags', agent.tags.map(escapeText).join(', ') || 'none'],
                ['Required secrets', agent.required_secrets.join(', ') || 'none'],
                [
                  'Price per call',
                  agent.price_per_call_cents ? <Credits key="price" cents={agent.price_per_call_cents} /> : 'free',
                ],
                ['Source', isAvailable(agent) ? 'available' : 'not available'],
              ]}
            />
          </Section>
          {agent.prompt && (
            <Section title="Prompt">
              <TextView text={agent.prompt} name={`${name}-prompt`} />
            </Section>
          )}
          <Section title="Input">
            <SchemaTable label="Input" schema={agent.input_schema} />
          </Section>
          <Section title="Output">
            <SchemaTable label="Output" schema={agent.output_schema} />
          </Section>
        </>
      )}
      {tab === 'fork' && (
        <Section title="Fork" description="Creates a private copy with its code, which you can change.">
          {isAvailable(agent) ? (
            <Fork agent={agent} />
          ) : (
            <p className="text-soft">Its source is not available, so it can be called but not copied.</p>
          )}
        </Section>
      )}
    </Page>
  );
}

const isAvailable = ({ allow_local_download, pricing_mode }: { allow_local_download: boolean; pricing_mode: string }) =>
  allow_local_download && pricing_mode === 'free';
