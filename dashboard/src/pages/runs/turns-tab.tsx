import { GitBranch } from 'lucide-react';
import { lazy, Suspense, useMemo, useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { count } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { type Turn, turnsOf } from './turns.ts';
import { useWaterfall } from './use-waterfall.ts';

const BranchDialog = lazy(() => import('./branch-dialog.tsx'));

/** Time after its end for which a run can begin again from a turn (`docs/interface/branches.md`). */
const KEPT_MS = 24 * 3_600_000;
const POLL_MS = 5_000;

type Run = AnswerOf<'getRun'>;
type Branches = AnswerOf<'listRunBranches'>['branches'];

/** The turns of a durable loop, each with the branches that leave the run there. */
export default function TurnsTab({ run, isRunning }: { readonly run: Run; readonly isRunning: boolean }) {
  const { id: workspace_id, slug: workspace } = useWorkspace();
  const params = { workspace_id, run_id: run.id };
  const { data, error } = useWaterfall(params, isRunning);
  const { data: listed } = useOperation(
    'listRunBranches',
    { params },
    { refetchInterval: ({ state }) => (hasOpen(state.data?.branches) ? POLL_MS : false) },
  );
  const [begun, setBegun] = useState<number>();
  const first = run.branch?.from_turn ?? 1;
  const turns = useMemo(() => {
    const own = data?.runs.find(({ run_id }) => run_id === run.id);
    return turnsOf(own?.steps ?? [], first);
  }, [data, run.id, first]);
  if (error && !data) return <ErrorBox error={error} />;
  if (!data) return <Loading />;
  const isKept = run.completed_at !== null && Date.now() - Date.parse(run.completed_at) < KEPT_MS;
  const branches = listed?.branches ?? [];
  return (
    <>
      {run.branch !== null && run.replay_of_run_id !== null && first > 1 && (
        <p>
          {first === 2 ? 'Turn 1 is' : `Turns 1 to ${first - 1} are`} copied from{' '}
          <Link
            to="/$workspace/runs/$run"
            params={{ workspace, run: run.replay_of_run_id }}
            search={{ tab: 'turns' }}
            className="underline"
          >
            run {run.replay_of_run_id.slice(0, 8)}
          </Link>
          {run.branch.changed.length > 0 && `, with ${changesText(run.branch.changed)}`}.
        </p>
      )}
      {!isKept && (
        <p className="text-soft">
          {isRunning
            ? 'A run can begin again from one of its turns once it has ended.'
            : 'The turns of this run were kept for a day after its end. It can be replayed from its beginning.'}
        </p>
      )}
      <Table
        label="Turns of the run"
        rows={turns}
        keyOf={({ number }) => String(number)}
        columns={[
          {
            title: 'Turn',
            cell: ({ number, isCopied }) => (
              <>
                Turn {number} {isCopied && <span className="text-soft">· copied</span>}
              </>
            ),
          },
          { title: 'Tools', cell: ({ tools }) => <Tools tools={tools} /> },
          {
            title: 'Tokens',
            cell: ({ tokens }) => (tokens === 0 ? <span className="text-soft">–</span> : count(tokens)),
            isNumber: true,
            from: 'md',
          },
          {
            title: 'Branches',
            cell: ({ number }) => <Leaving branches={branches.filter(({ from_turn }) => from_turn === number)} />,
          },
          {
            title: 'Action',
            cell: ({ number }) =>
              isKept && (
                <Button
                  variant="quiet"
                  aria-label={`Begin again from here: turn ${number}`}
                  onPress={() => setBegun(number)}
                >
                  Begin again from here
                </Button>
              ),
          },
        ]}
      />
      {begun !== undefined && (
        <Suspense>
          <BranchDialog run={run} turns={turns} fromTurn={begun} onClose={() => setBegun(undefined)} />
        </Suspense>
      )}
    </>
  );
}

type Change = Branches[number]['changed'][number];

const CHANGES: Readonly<Record<Change, string>> = {
  message: 'a message',
  tool_results: 'other results of tools',
  model: 'another model',
  version: 'another version',
};
const changesText = (changed: readonly Change[]): string => changed.map((change) => CHANGES[change]).join(', ');

const hasOpen = (branches: Branches = []): boolean =>
  branches.some(({ status }) => status === 'running' || status === 'queued');

function Tools({ tools }: Pick<Turn, 'tools'>) {
  if (tools.length === 0) return <span className="text-soft">–</span>;
  return tools.map(({ name, status }) => escapeText(status === 'failed' ? `${name} (failed)` : name)).join(', ');
}

/** The branches that leave the run at a turn. */
function Leaving({ branches }: { readonly branches: Branches }) {
  const { slug: workspace } = useWorkspace();
  if (branches.length === 0) return null;
  return (
    <ul className="flex flex-col gap-1 border-l-2 border-edge pl-2">
      {branches.map(({ id, agent_version, status, changed }) => (
        <li key={id} className="flex flex-wrap items-center gap-2">
          <GitBranch size={14} aria-hidden className="text-soft" />
          <Link
            to="/$workspace/runs/$run"
            params={{ workspace, run: id }}
            search={{ tab: 'turns' }}
            className="font-mono underline"
          >
            {id.slice(0, 8)}
          </Link>
          <Status value={status} />
          <span className="text-soft">
            {changed.length === 0 ? 'unchanged' : changesText(changed)}
            {changed.includes('version') && ` (${agent_version})`}
          </span>
        </li>
      ))}
    </ul>
  );
}
