import { useNavigate } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { count } from '../../ui/data/numbers.tsx';
import { Badge } from '../../ui/data/status.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';

const ASK_MS = 10_000;

type Overview = AnswerOf<'getOverview'>['workspaces'][number];

/** Activity in all workspaces of the user. */
export function StartPage() {
  const { data, error, refetch } = useOperation('getOverview', {}, { refetchInterval: ASK_MS });
  const [isMaking, setMaking] = useState(false);
  return (
    <Page
      title="Workspaces"
      actions={
        <Button icon={Plus} onPress={() => setMaking(true)}>
          Create workspace
        </Button>
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <ul className="grid grid-cols-1 gap-3 md:grid-cols-2">
          {data.workspaces.map((workspace) => (
            <WorkspaceCard key={workspace.id} workspace={workspace} />
          ))}
        </ul>
      )}
      {isMaking && <NewWorkspace onClose={() => setMaking(false)} />}
    </Page>
  );
}

const atLeast = (of: { readonly count: number; readonly is_exact: boolean }): string =>
  `${of.is_exact ? '' : 'at least '}${count(of.count)}`;

const LIST = 'flex flex-wrap items-baseline gap-x-2';

function WorkspaceCard({
  workspace: { slug, name, role, running, failed, next_due, unread_messages },
}: {
  readonly workspace: Overview;
}) {
  const [next] = next_due;
  const last = failed.runs[0];
  return (
    <li className="flex min-w-0 flex-col gap-2 rounded-lg border border-line bg-raised p-4">
      <div className="flex flex-wrap items-center gap-2">
        <h2 className="min-w-0 grow text-base font-semibold">
          <Link to="/$workspace" params={{ workspace: slug }}>
            {name}
          </Link>
        </h2>
        <Badge>{role === 'owner' ? 'Owner' : 'Member'}</Badge>
      </div>
      <dl className="grid grid-cols-[max-content_1fr] gap-x-4 gap-y-1">
        <dt className="text-soft">Running now</dt>
        <dd>
          {running.count === 0 ? (
            'Nothing'
          ) : (
            <Link to="/$workspace/runs" params={{ workspace: slug }} search={{ status: 'running' }}>
              {atLeast(running)}
            </Link>
          )}
        </dd>
        <dt className="text-soft">Failed in the last 24 hours</dt>
        <dd className={LIST}>
          {failed.count === 0 ? (
            'None'
          ) : (
            <Link to="/$workspace/runs" params={{ workspace: slug }} search={{ status: 'failed' }}>
              {atLeast(failed)}
            </Link>
          )}
          {last && (
            <span className="text-soft">
              last{' '}
              <Link
                to="/$workspace/runs/$run"
                params={{ workspace: slug, run: last.id }}
                className="underline"
              >{`${last.agent_name}@${last.agent_version}`}</Link>{' '}
              <Time at={last.started_at} />
            </span>
          )}
        </dd>
        <dt className="text-soft">Next due</dt>
        <dd className={LIST}>
          {next === undefined ? (
            'Nothing'
          ) : (
            <>
              <Link to="/$workspace/schedules/$schedule" params={{ workspace: slug, schedule: next.schedule_id }}>
                {next.agent_name}
              </Link>
              <Time at={next.at} />
            </>
          )}
        </dd>
        <dt className="text-soft">Unread messages</dt>
        <dd>
          {unread_messages.count === 0 ? (
            'None'
          ) : (
            <Link to="/$workspace/messages" params={{ workspace: slug }}>
              {atLeast(unread_messages)}
            </Link>
          )}
        </dd>
      </dl>
    </li>
  );
}

function NewWorkspace({ onClose }: { readonly onClose: () => void }) {
  const [name, setName] = useState('');
  const navigate = useNavigate();
  const create = useAction('createWorkspace', { stale: ['listWorkspaces', 'getOverview'], silent: true });
  const submit = async () => {
    try {
      const { workspace } = await create.mutateAsync({ body: { name: name.trim() } });
      await navigate({ to: '/$workspace', params: { workspace: workspace.slug } });
    } catch {
      // `create.error` holds the reason.
    }
  };
  return (
    <Dialog
      title="Create a workspace"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button variant="primary" onPress={submit} isPending={create.isPending} isDisabled={name.trim() === ''}>
            Create workspace
          </Button>
        </>
      }
    >
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        autoFocus
        description="You become its owner. Its URL is derived from the name."
      />
      {create.error && <ErrorBox error={create.error} />}
    </Dialog>
  );
}
