import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { CircleCheck, CircleDashed, Play } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { keyOf, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button, LinkButton } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { CodeBlock } from '../../ui/text/code.tsx';
import { EXAMPLE } from './example.ts';

const WEEK_MS = 7 * 24 * 3600_000;

/** Returns the completed steps of a new workspace; null if the workspace is not new, undefined while loading. */
export function useFirstSteps() {
  const { id: workspace_id } = useWorkspace();
  const org = useOperation('getOrg', {}, { staleTime: 60_000 });
  const runs = useOperation('listRuns', { params: { workspace_id }, query: { limit: 1 } });
  const hasRun = runs.data && runs.data.runs.length > 0;
  const isYoung = org.data && Date.now() - Date.parse(org.data.created_at) < WEEK_MS;
  const isNew = isYoung === undefined || hasRun === undefined ? undefined : isYoung || !hasRun;
  const isAsked = { enabled: isNew !== false };
  const agents = useOperation('listAgents', { query: { latest: 'true', limit: 100 } }, isAsked);
  const schedules = useOperation('listSchedules', { params: { workspace_id }, query: { limit: 1 } }, isAsked);
  // The page shows these errors itself.
  if (isNew === false || org.error || runs.error || agents.error || schedules.error) return null;
  if (isNew === undefined || !agents.data || !schedules.data) return undefined;
  const hasPublished = agents.data.some(({ name }) => name !== EXAMPLE);
  const hasScheduled = schedules.data.total > 0;
  if (hasRun && hasPublished && hasScheduled) return null;
  return { hasRun: hasRun === true, hasPublished, hasScheduled, agents: agents.data };
}

export type FirstSteps = NonNullable<ReturnType<typeof useFirstSteps>>;

/** Three cards for a new workspace, each checked once its step is done, wherever that happens. */
export function GettingStarted({
  steps: { hasRun, hasPublished, hasScheduled, agents },
}: {
  readonly steps: FirstSteps;
}) {
  const { slug, role } = useWorkspace();
  const example = agents.find(({ name }) => name === EXAMPLE);
  const scheduled = agents.find(({ name, callable }) => callable && name !== EXAMPLE) ?? example;
  return (
    <section aria-label="First steps" className="flex flex-col gap-3">
      <h2 className="text-base font-semibold">First steps</h2>
      <ol className="grid grid-cols-1 items-stretch gap-3 lg:grid-cols-3">
        <Card title="Run an example" isDone={hasRun}>
          <p>A small program that greets you. It needs no model and no key.</p>
          <TryExample example={example} />
        </Card>
        <Card title="Publish a folder" isDone={hasPublished}>
          <p>An agent is a folder: a prompt, a program, or a model with tools. Make one, change it, publish it:</p>
          <CodeBlock
            label="Copy the commands"
            text={'npx platform init my-agent --template hello-node\nnpx platform publish my-agent'}
          />
        </Card>
        <Card title="Schedule it" isDone={hasScheduled}>
          <p>Let an agent run each morning, each minute, or when something posts to an address.</p>
          {role !== 'owner' && <p className="text-soft">Owners of the workspace make schedules.</p>}
          {role === 'owner' && scheduled === undefined && <p className="text-soft">Once there is an agent.</p>}
          {role === 'owner' && scheduled !== undefined && (
            <div>
              <LinkButton
                to="/$workspace/schedules/new"
                params={{ workspace: slug }}
                search={{ agent: scheduled.name }}
              >
                Create a schedule
              </LinkButton>
            </div>
          )}
        </Card>
      </ol>
    </section>
  );
}

function Card({
  title,
  isDone,
  children,
}: {
  readonly title: string;
  readonly isDone: boolean;
  readonly children: ReactNode;
}) {
  const Icon = isDone ? CircleCheck : CircleDashed;
  return (
    <li className="flex min-w-0 flex-col gap-2 rounded-lg border border-line bg-raised p-4">
      <h3 className="flex items-center gap-2 font-semibold">
        <Icon size={16} aria-hidden className={isDone ? 'text-good' : 'text-soft'} />
        <span className="grow">{title}</span>
        <span role="status" className="text-xs font-normal text-good">
          {isDone && 'Done'}
        </span>
      </h3>
      {children}
    </li>
  );
}

function TryExample({ example }: { readonly example: AnswerOf<'listAgents'>[number] | undefined }) {
  const { id, slug } = useWorkspace();
  const [state, setState] = useState<{ readonly isPending?: boolean; readonly error?: unknown }>({});
  const queries = useQueryClient();
  const navigate = useNavigate();
  const open = async () => {
    setState({ isPending: true });
    try {
      if (example?.runnable !== true) {
        // The zip code is loaded on demand.
        await (await import('./publish-example.ts')).publishExample(id);
        await queries.invalidateQueries({ queryKey: keyOf('listAgents') });
      }
      await navigate({ to: '/$workspace/agents/$name', params: { workspace: slug, name: EXAMPLE } });
    } catch (error) {
      setState({ error });
    }
  };
  return (
    <>
      {state.error !== undefined && <ErrorBox error={state.error} />}
      <div>
        <Button variant="primary" icon={Play} onPress={open} isPending={state.isPending}>
          Try the example
        </Button>
      </div>
    </>
  );
}
