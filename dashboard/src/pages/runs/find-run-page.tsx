import { Navigate, useParams } from '@tanstack/react-router';
import { useOperation } from '../../api/query.ts';
import { Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';

/** Resolves a request id, a run id or a prefix of either to the run, in any of the user's workspaces. */
export function FindRunPage() {
  const { run: prefix = '' } = useParams({ strict: false });
  const { data, error, refetch } = useOperation('findMyRuns', { params: { prefix } });
  const [only, ...others] = data?.runs ?? [];
  if (only !== undefined && others.length === 0) {
    return <Navigate to="/$workspace/runs/$run" params={{ workspace: only.workspace.slug, run: only.id }} replace />;
  }
  return (
    <Page title={error ? 'Run not found' : `Runs whose ID begins with ${prefix}`}>
      {error && (
        <>
          <ErrorBox error={error} onRetry={() => void refetch()} />
          <p>
            <Link to="/">Your workspaces</Link>
          </p>
        </>
      )}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Runs"
          rows={data.runs}
          keyOf={({ id }) => id}
          linkOf={({ id, workspace }) => ({
            to: '/$workspace/runs/$run',
            params: { workspace: workspace.slug, run: id },
          })}
          columns={[
            { title: 'Run', cell: ({ id }) => <span className="font-mono">{id}</span> },
            { title: 'Workspace', cell: ({ workspace }) => workspace.name },
            { title: 'Agent', cell: ({ agent_name, agent_version }) => `${agent_name}@${agent_version}` },
            { title: 'Status', cell: ({ status }) => <Status value={status} /> },
            { title: 'Started', cell: ({ started_at }) => <Time at={started_at} />, from: 'sm' },
          ]}
        />
      )}
    </Page>
  );
}
