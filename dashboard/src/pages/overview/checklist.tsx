import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { CircleCheck, CircleDashed, Play, X } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import { isText, useBrowserList } from '../../api/browser-list.ts';
import type { AnswerOf } from '../../api/client.ts';
import { keyOf, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button, IconButton, LinkButton } from '../../ui/button.tsx';
import { classes } from '../../ui/classes.ts';
import { ErrorBox } from '../../ui/error-box.tsx';
import { CodeBlock } from '../../ui/text/code.tsx';
import { EXAMPLE } from './example.ts';

const STEPS = ['run', 'publish', 'key', 'schedule', 'budget', 'invite'] as const;
type Step = (typeof STEPS)[number];
/** Steps that only owners can take. */
const OWNER_STEPS: readonly Step[] = ['schedule', 'budget', 'invite'];
/** Stored instead of steps once the user has closed the checklist. */
const DISMISSED = 'dismissed';

/**
 * Returns which steps of the checklist are done; null if it was dismissed or all are done, undefined while loading. The
 * browser remembers completed steps, so that they cost no further requests.
 */
export function useChecklist() {
  const { id: workspace_id, role, member_count } = useWorkspace();
  const [stored, store] = useBrowserList('checklist', isText);
  const steps = STEPS.filter((step) => role === 'owner' || !OWNER_STEPS.includes(step));
  const isOpen = (step: Step) => steps.includes(step) && !stored.includes(step) && !stored.includes(DISMISSED);
  const params = { workspace_id };
  const runs = useOperation('listRuns', { params, query: { limit: 1 } }, { enabled: isOpen('run') });
  const needsAgents = isOpen('run') || isOpen('publish') || isOpen('schedule');
  const agents = useOperation('listAgents', { query: { latest: 'true', limit: 100 } }, { enabled: needsAgents });
  const keys = useOperation('listApiKeys', {}, { enabled: isOpen('key') });
  const schedules = useOperation('listSchedules', { params, query: { limit: 1 } }, { enabled: isOpen('schedule') });
  const budgets = useOperation('listBudgets', { params }, { enabled: isOpen('budget') });
  const found: Readonly<Record<Step, boolean | undefined>> = {
    run: runs.data && runs.data.runs.length > 0,
    publish: agents.data?.some(({ name }) => name !== EXAMPLE),
    // Everyone's first key comes with the account.
    key: keys.data && (keys.data.length > 1 || keys.data.some(({ scope }) => scope !== 'manage')),
    schedule: schedules.data && schedules.data.total > 0,
    budget: budgets.data && budgets.data.budgets.length > 0,
    invite: member_count > 1,
  };
  const done = steps.filter((step) => !isOpen(step) || found[step] === true);
  useEffect(() => {
    if (done.some(isOpen)) store([...new Set([...stored, ...done])]);
  });
  const queries = [runs, agents, keys, schedules, budgets];
  // The page shows an unreachable platform itself.
  if (done.length === steps.length || queries.some(({ error }) => error)) return null;
  if (queries.some(({ isLoading }) => isLoading)) return undefined;
  return { steps, done, agents: agents.data ?? [], dismiss: () => store([DISMISSED]) };
}

export type Checklist = NonNullable<ReturnType<typeof useChecklist>>;

interface Row {
  readonly title: string;
  readonly text: string;
  readonly action: ReactNode;
  readonly command?: string;
}

/** The first steps in a workspace. Each is checked once it is done, wherever that happens. */
export function GetStarted({ checklist: { steps, done, agents, dismiss } }: { readonly checklist: Checklist }) {
  const { slug } = useWorkspace();
  const example = agents.find(({ name }) => name === EXAMPLE);
  const scheduled = agents.find(({ name, callable }) => callable && name !== EXAMPLE) ?? example;
  const link = (label: string, path: string, search?: object) => (
    <LinkButton to={`/$workspace/${path}`} params={{ workspace: slug }} search={search}>
      {label}
    </LinkButton>
  );
  const rows: Readonly<Record<Step, Row>> = {
    run: {
      title: 'Run an example',
      text: 'A small program that greets you. It needs no model and no key.',
      action: <TryExample example={example} />,
    },
    publish: {
      title: 'Publish an agent',
      text: 'An agent is a folder with a prompt, a program, or a model with tools. Create one, edit it, and publish it:',
      action: link('Browse examples', 'examples'),
      command: `${COMMAND} init my-agent --template hello-node\n${COMMAND} publish my-agent`,
    },
    key: {
      title: 'Create an API key',
      text: 'Your programs call agents with a key. You can limit it to running agents and let it expire.',
      action: link('Go to API keys', 'settings/keys'),
    },
    schedule: {
      title: 'Create a schedule or webhook',
      text: 'Run an agent every morning, every minute, or whenever another system posts to a URL.',
      action: link('Create schedule', 'schedules/new', scheduled && { agent: scheduled.name }),
    },
    budget: {
      title: 'Set a budget',
      text: 'Get an alert, or stop new runs, when spending reaches your limit.',
      action: link('Go to budgets', 'billing', { tab: 'budgets' }),
    },
    invite: {
      title: 'Invite a teammate',
      text: 'Members publish and run agents. Owners also manage schedules, secrets, budgets and members.',
      action: link('Go to members', 'settings/members'),
    },
  };
  return (
    <section aria-label="Get started" className="rounded-lg border border-line bg-raised">
      <div className="flex items-center gap-3 border-b border-line py-1.5 pr-2 pl-4">
        <h2 className="text-base font-semibold">Get started</h2>
        <span role="status" className="grow text-soft">
          {done.length} of {steps.length} done
        </span>
        <IconButton icon={X} label="Dismiss checklist" onPress={dismiss} />
      </div>
      <ol className="divide-y divide-line">
        {steps.map((step) => (
          <ChecklistRow key={step} row={rows[step]} isDone={done.includes(step)} />
        ))}
      </ol>
    </section>
  );
}

function ChecklistRow({
  row: { title, text, action, command },
  isDone,
}: {
  readonly row: Row;
  readonly isDone: boolean;
}) {
  const Icon = isDone ? CircleCheck : CircleDashed;
  return (
    <li className="flex gap-3 px-4 py-2.5">
      <Icon size={16} aria-hidden className={classes('mt-0.5 shrink-0', isDone ? 'text-good' : 'text-soft')} />
      <div className="flex min-w-0 grow flex-col gap-2">
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <div className="min-w-0 grow basis-60">
            <h3 className={isDone ? 'text-soft' : 'font-semibold'}>{title}</h3>
            {!isDone && <p className="text-soft">{text}</p>}
          </div>
          {isDone ? <span className="text-xs text-good">Done</span> : action}
        </div>
        {command && !isDone && <CodeBlock label="Copy commands" text={command} />}
      </div>
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
